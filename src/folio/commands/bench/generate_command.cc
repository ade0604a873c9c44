#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/bench/describe.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/opened_model.h"
#include "folio/model/decoder.h"
#include "folio/model/weight_init.h"

namespace folio {
namespace {

class BenchGenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench generate",
        .summary = "measure how fast a model writes",
        .group = "set-up",
        .details =
            "A prompt at once, single tokens behind contexts of several lengths, and several\n"
            "texts together, a token each. A token reads all weights: beside it, and in turns\n"
            "with it, as many bytes of plain memory are read by all threads, which is what the\n"
            "machine can do at best.",
        .examples = {"folio bench generate --preset gpt2 --dtype bf16",
                     "folio bench generate --model gpt2 --dtype int8 --positions 10,1000 --json"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"dtype", &dtype_,
                      "what the matrices are kept and multiplied as; auto: as they are stored"}
                    .Choices(MatrixDtypeNames()));
    flags.Value(Field{"prompt-tokens", &options_.prompt_tokens, "length of the prompt", 1, 1e9});
    flags.Value(Field{"positions", &positions_,
                      "contexts behind which tokens are timed; 10 if not said, in a shorter "
                      "context its last"});
    flags.Value(Field{"batches", &batches_, "numbers of sequences that are written together"});
    flags.Switch("--bf16-cache", &bf16_cache_, "keep keys and values in bfloat16");
    flags.Value(Field{"seconds", &options_.seconds, "measure at least so long", 0, 1e6});
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    RequireModelFor(adapter_, settings_.path());
    const TrainConfig& train = settings_.config().train;
    UseThreads(train.threads);
    simd_.Use();
    const GptConfig& config = settings_.config().model;
    const int64_t last = config.n_positions - 1;
    options_.positions = positions_.empty() ? std::vector{std::min<int64_t>(10, last)}
                                            : Numbers("--positions", positions_, 0, last);
    options_.batches = Numbers("--batches", batches_, 1, Decoder::kFewRows);
    if (bf16_cache_) options_.cache = Dtype::kBF16;
    const MatrixDtype matrices = MatrixDtypeNamed(dtype_);
    double load_seconds = 0;
    std::unique_ptr<GptWeights> random, weights;
    if (settings_.path().empty()) {
      random = std::make_unique<GptWeights>(config);
      InitWeights(*random, /*seed=*/1);
      weights = MapWeights(AsStored(*random), matrices);
    } else {
      load_seconds = SecondsOf([&] {
        weights = OpenModel(settings_.path(), {.adapter = adapter_, .matrices = matrices}).weights;
      });
    }
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const GenerationTimings timings = MeasureGeneration(*backend, *weights, options_);
    context.console.Result(DescribeGeneration(settings_.name(), *backend, dtype_, load_seconds,
                                              timings, context.console.json()));
    return 0;
  }

 private:
  static std::vector<int64_t> Numbers(std::string_view flag, const std::string& list, int64_t least,
                                      int64_t most) {
    std::vector<int64_t> numbers;
    for (const std::string& text : Split(list, ',')) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool whole = error == std::errc() && end == text.data() + text.size();
      if (!whole || number < least || number > most) {
        throw UsageError(fmt::format("{}: '{}' is none", flag, text),
                         fmt::format("with this model it may be {} to {}", least, most),
                         fmt::format("name some of them: {} {},{}", flag, least, most));
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  ModelSettings settings_{std::vector<std::string>{"--threads", "--backend"}};
  BenchGenerateOptions options_;
  std::string adapter_, dtype_ = "auto", positions_, batches_ = "1,4,16";
  bool bf16_cache_ = false;
  SimdFlag simd_;
};

}  // namespace

std::unique_ptr<Command> NewBenchGenerateCommand() {
  return std::make_unique<BenchGenerateCommand>();
}

}  // namespace folio
