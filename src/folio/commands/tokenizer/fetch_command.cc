#include <filesystem>
#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/commands/commands.h"
#include "folio/corpus/fetch_published.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

class TokenizerFetchCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "tokenizer fetch",
            .summary = "download the files of a published tokenizer",
            .group = "tokenizer",
            .details =
                "Puts them where --tokenizer NAME looks for them: in $FOLIO_HOME/tokenizers,\n"
                "else ~/.cache/folio/tokenizers. A file is kept only if it is, byte for byte,\n"
                "the published one. Nothing in folio but the fetch commands uses the network.",
            .examples = {"folio tokenizer fetch gpt2", "folio tokenizer fetch --list",
                         "folio tokenizer fetch gpt2 --from ~/Downloads"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("NAME", &names_, "encodings to fetch",
                      {.suggestions = PublishedEncodingNames()});
    flags.Switch("--list", &list_, "show the encodings, and which of them are here");
    flags.Value(Field{"from", &from_, "take the files from this directory, not the network"},
                {.placeholder = "DIR"});
  }

  int Run(const Context& context) override {
    if (list_) {
      context.console.Result(DescribeEncodings(context.console.json()));
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
      const std::filesystem::path dir =
          FetchEncoding(*encoding, from_, context.console, context.progress_mode);
      if (!context.console.json()) continue;
      const Json json = {{"schema", 1}, {"name", encoding->name}, {"dir", dir.string()}};
      context.console.Result(json.dump() + "\n");
    }
    return 0;
  }

 private:
  std::vector<std::string> names_;
  std::string from_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTokenizerFetchCommand() {
  return std::make_unique<TokenizerFetchCommand>();
}

}  // namespace folio
