#include "folio/corpus/fetch_published.h"

#include <fmt/format.h>

#include <string_view>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

// The works of Shakespeare in 40,000 lines, as char-rnn and nanoGPT learn from them.
constexpr PublishedFile kTinyShakespeare = {
    "tinyshakespeare",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1115394};

}  // namespace

void FetchPublished(const PublishedFile& file, const WantedFile& wanted,
                    const std::filesystem::path& from, Console& console, ProgressMode mode) {
  if (!from.empty()) return CopyFile(from, wanted);
  const std::string name(file.name);
  Progress progress(console, mode);
  FetchFile(std::string(file.url), wanted, [&](int64_t bytes) {
    ThrowIfStopRequested();
    progress.Show({"bytes", bytes, wanted.bytes, {{"file", name, name}}});
  });
}

const PublishedFile& PublishedText(const std::string& name) {
  if (name == kTinyShakespeare.name) return kTinyShakespeare;
  throw UsageError(fmt::format("there is no published text '{}'", name),
                   fmt::format("folio knows {}", kTinyShakespeare.name),
                   "any other text is a file of yours: folio train --data FILE");
}

void FetchText(const PublishedFile& text, const std::filesystem::path& out,
               const std::filesystem::path& from, bool overwrite, Console& console,
               ProgressMode mode) {
  const std::string path = out.string();
  const WantedFile wanted = {
      out, std::string(text.sha256), text.bytes,
      fmt::format("download {} elsewhere and put it here as {}", text.url, path)};
  if (IsThere(wanted)) {
    console.Note(fmt::format("{} is {} already", path, text.name));
    return;
  }
  CheckNewFile(path, overwrite);
  RequireParentOf(out);
  FetchPublished(text, wanted, from, console, mode);
  console.Note(fmt::format("{} is now {}", text.name, path));
}

}  // namespace folio
