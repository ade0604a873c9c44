#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/data/stories.h"
#include "folio/io/file.h"
#include "folio/io/json.h"

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

// Conversations about stories, in lines of JSON, until there are so many bytes.
template <class Write>
void AskAboutStories(uint64_t seed, int64_t bytes, const Write& write) {
  std::string piece;
  int64_t written = 0;
  for (uint64_t index = 0; written < bytes; ++index) {
    const StoryQuestion asked = AskAboutStory(seed, index);
    const Json line = {
        {"messages",
         Json::array({{{"role", "user"}, {"content", asked.passage + "\n" + asked.question}},
                      {{"role", "assistant"}, {"content", asked.answer}}})}};
    const std::string text = line.dump() + "\n";
    written += std::ssize(text);
    piece += text;
    if (piece.size() < kStoryBytes && written < bytes) continue;
    write(piece);
    piece.clear();
  }
}

class StoriesCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "data stories",
            .summary = "write the built-in corpus: small made-up English stories",
            .group = "data",
            .details =
                "The same seed and size give the same bytes on every machine. With --questions\n"
                "they are conversations instead, for a model that is to answer: a line of a story\n"
                "and a question about it, and the answer.",
            .examples = {"folio data stories --out stories.txt",
                         "folio data stories --questions --seed 2 --out questions.jsonl",
                         "folio data stories --bytes 2000 --out -"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"out", &out_, "file to write; - for standard output"},
                {.placeholder = "FILE", .required = true});
    flags.Switch("--overwrite", &overwrite_, "replace the file that is there");
    flags.Value(
        Field{"bytes", &bytes_, "length of the text; the last story is told to its end", 1, 1e12});
    flags.Value(Field{"seed", &seed_, "which stories", 0, 9e15});
    flags.Switch("--questions", &questions_, "ask about stories, in lines of JSON");
  }

  int Run(const Context& context) override {
    if (out_ == "-") {
      Make([&](const std::string& text) { context.console.Result(text); });
      return 0;
    }
    CheckNewFile(out_, overwrite_);
    AtomicFile file(out_);
    Make([&](const std::string& text) { file.Write(text); });
    file.Commit();
    context.console.Note(
        fmt::format("wrote {} ({})", out_, HumanBytes(static_cast<double>(file.written()))));
    return 0;
  }

 private:
  template <class Write>
  void Make(const Write& write) const {
    const auto seed = static_cast<uint64_t>(seed_);
    if (questions_) {
      AskAboutStories(seed, bytes_, write);
    } else {
      TellStories(seed, bytes_, write);
    }
  }

  std::string out_;
  int64_t bytes_ = 4'000'000;
  int64_t seed_ = 1;
  bool overwrite_ = false;
  bool questions_ = false;
};

}  // namespace

std::unique_ptr<Command> NewStoriesCommand() {
  return std::make_unique<StoriesCommand>();
}

}  // namespace folio
