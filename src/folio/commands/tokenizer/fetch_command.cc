#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/io/fetch.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"
#include "folio/term/table.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Where the files of an encoding lie.
fs::path EncodingDir(const PublishedEncoding& encoding) {
  const std::string home = TokenizerHome();
  if (home.empty()) {
    throw UsageError("there is no place for tokenizers",
                     "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                     "set FOLIO_HOME to a directory for them");
  }
  return fs::path(home) / encoding.name;
}

WantedFile Wanted(const PublishedEncoding& encoding, const PublishedFile& file) {
  return {EncodingDir(encoding) / file.name, std::string(file.sha256), file.bytes};
}

bool AllThere(const PublishedEncoding& encoding) {
  for (const PublishedFile& file : encoding.files) {
    if (!IsThere(Wanted(encoding, file))) return false;
  }
  return true;
}

const PublishedEncoding& EncodingNamed(const std::string& name) {
  if (const PublishedEncoding* encoding = FindPublishedEncoding(name)) return *encoding;
  std::vector<std::string> names;
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    names.emplace_back(encoding.name);
  }
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no published encoding '{}'", name),
                   "the encodings are " + Join(names, ", "),
                   nearest.empty() ? "folio tokenizer fetch --list describes them"
                                   : fmt::format("did you mean '{}'?", nearest));
}

class TokenizerFetchCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer fetch",
            .summary = "download the files of a published tokenizer",
            .group = "tokenizer",
            .details =
                "Puts them where --tokenizer NAME looks for them: in $FOLIO_HOME/tokenizers,\n"
                "else ~/.cache/folio/tokenizers. A file is kept only if it is, byte for byte,\n"
                "the published one. Nothing else in folio uses the network.",
            .examples = {"folio tokenizer fetch gpt2", "folio tokenizer fetch --list",
                         "folio tokenizer fetch gpt2 --from ~/Downloads"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("NAME", &names_, "encodings to fetch");
    flags.Switch("--list", &list_, "show the encodings, and which of them are here");
    flags.Value(Field{"from", &from_, "take the files from this directory, not the network"},
                {.placeholder = "DIR"});
  }

  int Run(const Context& context) override {
    if (list_) {
      List(context.console);
      return 0;
    }
    if (names_.empty()) {
      throw UsageError("folio tokenizer fetch needs NAME", "encodings to fetch",
                       "folio tokenizer fetch --list shows them");
    }
    CatchSignals();
    std::vector<const PublishedEncoding*> encodings;
    for (const std::string& name : names_) encodings.push_back(&EncodingNamed(name));
    if (!from_.empty()) RequireDirectory(from_);
    for (const PublishedEncoding* encoding : encodings) {
      Get(*encoding, context);
      if (!context.console.json()) continue;
      context.console.Result(
          Json{{"schema", 1}, {"name", encoding->name}, {"dir", EncodingDir(*encoding).string()}}
              .dump() +
          "\n");
    }
    return 0;
  }

 private:
  static void List(Console& console) {
    if (console.json()) {
      Json json = {{"schema", 1}};
      for (const PublishedEncoding& encoding : PublishedEncodings()) {
        json["encodings"].push_back({{"name", encoding.name},
                                     {"vocab_size", encoding.vocab_size},
                                     {"dir", EncodingDir(encoding).string()},
                                     {"here", AllThere(encoding)}});
      }
      console.Result(json.dump() + "\n");
      return;
    }
    std::vector<std::vector<std::string>> rows;
    for (const PublishedEncoding& encoding : PublishedEncodings()) {
      int64_t bytes = 0;
      for (const PublishedFile& file : encoding.files) bytes += file.bytes;
      rows.push_back({std::string(encoding.name), AllThere(encoding) ? "here" : "-",
                      HumanBytes(static_cast<double>(bytes)), std::string(encoding.summary)});
    }
    console.Result(RenderTable({"name", "files", ">size", "tokens"}, rows));
  }

  void Get(const PublishedEncoding& encoding, const Context& context) const {
    const fs::path dir = EncodingDir(encoding);
    bool any = false;
    for (const PublishedFile& file : encoding.files) {
      const WantedFile wanted = Wanted(encoding, file);
      if (IsThere(wanted)) continue;
      any = true;
      CreateDirectories(dir);
      if (from_.empty()) {
        Download(encoding, file, wanted, context);
      } else {
        CopyFile(fs::path(from_) / file.name, wanted);
      }
    }
    context.console.Note(any ? fmt::format("{} is now in {}", encoding.name, dir.string())
                             : fmt::format("{} is in {} already", encoding.name, dir.string()));
  }

  static void Download(const PublishedEncoding& encoding, const PublishedFile& file,
                       const WantedFile& wanted, const Context& context) {
    Progress progress(context.console, context.progress_mode);
    WantedFile with_help = wanted;
    with_help.otherwise = Elsewhere(encoding);
    FetchFile(std::string(file.url), with_help, [&](int64_t bytes) {
      ThrowIfStopRequested();
      progress.Show({"bytes",
                     bytes,
                     wanted.bytes,
                     {{"file", std::string(file.name), std::string(file.name)}}});
    });
  }

  // How to do without this machine's network.
  static std::string Elsewhere(const PublishedEncoding& encoding) {
    std::vector<std::string> parts;
    for (const PublishedFile& file : encoding.files) {
      const WantedFile wanted = Wanted(encoding, file);
      if (!IsThere(wanted)) {
        parts.push_back(fmt::format("download {} elsewhere and put it here as {}", file.url,
                                    wanted.path.string()));
      }
    }
    return Join(parts, "; ");
  }

  std::vector<std::string> names_;
  std::string from_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerFetchCommand() {
  return std::make_unique<TokenizerFetchCommand>();
}

}  // namespace folio
