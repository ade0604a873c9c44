#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"

namespace folio {
namespace {

constexpr size_t kStoryBytes = 1 << 20;

// Hands text on in pieces of at least kStoryBytes bytes.
template <class Write>
void TellStories(uint64_t seed, int64_t bytes, const Write& write) {
  std::string piece;
  GenerateStories(seed, bytes, [&](std::string_view story) {
    piece += story;
    if (piece.size() < kStoryBytes) return;
    write(piece);
    piece.clear();
  });
  write(piece);
}

class StoriesCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data stories",
            .summary = "write the built-in corpus: small made-up English stories",
            .group = "data",
            .details = "The same seed and size give the same bytes on every machine.",
            .examples = {"folio data stories --out stories.txt",
                         "folio data stories --bytes 2000 --out -"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"out", &out_, "file to write; - for standard output"},
                {.placeholder = "FILE", .required = true});
    flags.Switch("--overwrite", &overwrite_, "replace the file that is there");
    flags.Value(
        Field{"bytes", &bytes_, "length of the text; the last story is told to its end", 1, 1e12});
    flags.Value(Field{"seed", &seed_, "which stories", 0, 9e15});
  }

  int Run(const Context& context) override {
    const auto seed = static_cast<uint64_t>(seed_);
    if (out_ == "-") {
      TellStories(seed, bytes_, [&](const std::string& text) { context.console.Result(text); });
      return 0;
    }
    CheckNewFile(out_, overwrite_);
    AtomicFile file(out_);
    TellStories(seed, bytes_, [&](const std::string& text) { file.Write(text); });
    file.Commit();
    context.console.Note(
        fmt::format("wrote {} ({})", out_, HumanBytes(static_cast<double>(file.written()))));
    return 0;
  }

 private:
  std::string out_;
  int64_t bytes_ = 4'000'000;
  int64_t seed_ = 1;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> NewStoriesCommand() {
  return std::make_unique<StoriesCommand>();
}

}  // namespace folio
