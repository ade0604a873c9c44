#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/bench/describe.h"
#include "folio/bench/tokenizer_speed.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"

namespace folio {
namespace {

constexpr TokenizerMeasure kMeasures[] = {TokenizerMeasure::kLoad, TokenizerMeasure::kFirst,
                                          TokenizerMeasure::kEncode, TokenizerMeasure::kDecode,
                                          TokenizerMeasure::kTrain};

// Returns the members of `known` that `given` names, all of them if nothing is given; `flag` is for
// the Error if one is unknown.
template <class Known, class Name>
auto Choose(const std::vector<std::string>& given, const Known& known, Name&& name,
            const std::string& flag) {
  std::vector<std::decay_t<decltype(known[0])>> chosen;
  std::vector<std::string> names;
  for (const auto& one : known) names.emplace_back(name(one));
  if (given.empty()) chosen.assign(std::begin(known), std::end(known));
  for (const std::string& text : given) {
    const auto at = std::ranges::find(names, text);
    if (at == names.end()) {
      throw UsageError(fmt::format("{}: '{}' is not known", flag, text),
                       "expected one of " + Join(names, ", "));
    }
    chosen.push_back(known[static_cast<size_t>(at - names.begin())]);
  }
  return chosen;
}

class BenchTokenizerCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench tokenizer",
            .summary = "measure how fast text becomes tokens and tokens text",
            .group = "set-up",
            .details =
                "Measures invented text in English, program code, Chinese, Japanese and Russian,\n"
                "or files: in calls of 1 KB, of 1 MB and of everything; cold, with a tokenizer\n"
                "that was just loaded, and warm; on one thread and on all. Speeds are bytes of\n"
                "text in a second, and their share of memcpy of the same bytes.",
            .examples = {"folio bench tokenizer --tokenizer gpt2",
                         "folio bench tokenizer --tokenizer gpt2 --file input.txt --only encode",
                         "folio bench tokenizer --tokenizer gpt2 --full --json"}};
  }

  void AddFlags(Flags& flags) override {
    AddTokenizerFlag(flags, &options_.tokenizer);
    flags.List("--file", &options_.files, "measure this text instead of invented text",
               {.placeholder = "FILE"});
    flags.List("--language", &languages_, "english, code, chinese, japanese or russian",
               {.placeholder = "NAME"});
    flags.List("--only", &measures_, "load, first, encode, decode or train",
               {.placeholder = "WHAT"});
    flags.Value(Field{"bytes", &bytes_,
                      "of the longest inputs; 0 for 10 MB, or all of a file up to 100 MB", 0,
                      1e11});
    flags.Value(Field{"merges", &options_.merges, "of the tokenizer that is trained", 1, 1e6});
    compute_.Add(flags);
    flags.Switch("--full", &full_, "inputs of 100 MB; takes some minutes");
  }

  int Run(const Context& context) override {
    compute_.Use();
    if (options_.files.empty() || !languages_.empty()) {
      options_.languages = Choose(languages_, kBenchLanguages, BenchLanguageName, "--language");
    }
    options_.measures = Choose(measures_, kMeasures, TokenizerMeasureName, "--only");
    options_.bytes = bytes_ > 0                            ? static_cast<uint64_t>(bytes_)
                     : full_ || options_.languages.empty() ? 100'000'000
                                                           : 10'000'000;
    std::vector<TokenizerTiming> timings;
    BenchTokenizer(options_, [&](const TokenizerTiming& timing) {
      if (timings.empty() || timings.back().text != timing.text) {
        context.console.Note("measuring " +
                             (timing.text.empty() ? options_.tokenizer : timing.text));
      }
      timings.push_back(timing);
    });
    context.console.Result(DescribeTokenizerSpeed(options_, timings, context.console.json()));
    return 0;
  }

 private:
  BenchTokenizerOptions options_;
  std::vector<std::string> languages_;
  std::vector<std::string> measures_;
  int64_t bytes_ = 0;
  ComputeFlags compute_;
  bool full_ = false;
};

}  // namespace

std::unique_ptr<Command> NewBenchTokenizerCommand() {
  return std::make_unique<BenchTokenizerCommand>();
}

}  // namespace folio
