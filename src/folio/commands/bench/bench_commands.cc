#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/bench/operations.h"
#include "folio/bench/tokenizer_speed.h"
#include "folio/bench/training.h"
#include "folio/cli/program.h"
#include "folio/commands/bench/bench_reports.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model/decoder.h"
#include "folio/model/params.h"
#include "folio/model/weight_init.h"
#include "folio/report/report.h"
#include "folio/serve/http_client.h"
#include "folio/serve/service.h"
#include "folio/train/config.h"
#include "folio/train/ranks.h"

namespace folio {
namespace {

class BenchTrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench train",
        .summary = "measure how fast a model trains on this machine",
        .group = "set-up",
        .details =
            "Measures whole training steps on random tokens, and compares their arithmetic with "
            "the fastest matrix products of this machine in the same dtype. A step has one "
            "micro-batch for each rank, independent of the preset, unless --grad-accumulation is "
            "given. With --recompute the steps alternate with those of the same model without it, "
            "and with --lora with those of full fine-tuning, if both fit into memory. With "
            "--batches several sizes are measured, and \"more\" is the planned memory above that "
            "of the first. Under mpirun the ranks share the micro-batches of a step "
            "(--grad-accumulation), and the first rank reports the time of messages.",
        .examples = {"folio bench train --preset char-cpu --batch 12 --context 64",
                     "folio bench train --preset gpt2 --batch 4 --dtype bf16 --json",
                     "folio bench train --preset gpt2 --batches 1,2,4,8 --steps 3",
                     "folio bench train --preset gpt2 --batch 2 --context 256 --lora 8",
                     "folio bench train --preset char-cpu --ops",
                     "mpirun -n 2 folio bench train --preset gpt2 --batch 4 --context 256 "
                     "--grad-accumulation 2"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(
        Field{"batches", &batches_, "several batch sizes one after the other, instead of --batch"},
        {.placeholder = "N,N,..."});
    flags.Value(Field{"steps", &steps_, "measure at least this many steps", 1, 1e9});
    flags.Value(Field{"seconds", &seconds_, "and at least this long", 0, 1e6});
    flags.Switch("--ops", &ops_, "show where the time goes, operation by operation");
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    RefuseTogether(!batches_.empty() && settings_.flagged("train.batch_size"), "--batches",
                   "--batch");
    Group& group = JoinRanks(context.console, "folio bench train");
    const TrainConfig train = Train(group);
    RequireShares(train, group.size());
    UseThreads(train.threads);
    simd_.Use();
    RequireSameSimd(group);
    std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    Backend& plain = *backend;
    TimedBackend* timed = nullptr;
    if (ops_) {
      auto timing = std::make_unique<TimedBackend>(std::move(backend));
      timed = timing.get();
      backend = std::move(timing);
    }
    const std::vector<BenchTrainOptions> options = Options(train, *backend, group);
    std::vector<BenchTrainResult> results;
    for (const BenchTrainOptions& each : options) {
      if (group.first())
        context.console.Note(fmt::format("measuring {} with batches of {} x {} tokens",
                                         settings_.name(), each.train.batch_size, each.T));
      results.push_back(BenchTrain(*backend, each, timed));
    }
    if (!group.first()) return 0;
    ShowReport(context.console,
               TrainingReport(settings_.name(), plain, options, results, !batches_.empty()));
    return 0;
  }

 private:
  // Without a flag for it, uses one micro-batch for each rank, or as many as are sent together: a
  // preset's number would take minutes to measure the same.
  TrainConfig Train(const Group& group) const {
    TrainConfig train = settings_.config().train;
    if (!settings_.told("train.grad_accumulation")) {
      train.grad_accumulation =
          std::max<int64_t>(1, group.size() / train.tensor_parallel) * train.reduce_every;
    }
    return train;
  }

  // One item for each batch size.
  std::vector<BenchTrainOptions> Options(const TrainConfig& train, Backend& backend,
                                         Group& group) const {
    const GptConfig& model = settings_.config().model;
    BenchTrainOptions options{.model = model,
                              .train = train,
                              .T = settings_.Context(),
                              .pass = PassOptionsOf(train, model, backend),
                              .steps = steps_,
                              .seconds = seconds_,
                              .group = group.alone() ? nullptr : &group};
    if (batches_.empty()) return {options};
    std::vector<BenchTrainOptions> all;
    for (const int64_t B : ParseNumbers("--batches", batches_, 1, 1 << 24)) {
      options.train.batch_size = B;
      all.push_back(options);
    }
    return all;
  }

  ModelSettings settings_{std::vector<std::string>{
      "--batch", "--context", "--dtype", "--recompute", "--threads", "--backend", "--lora",
      "--grad-accumulation", "--reduce-every", "--reduce-dtype", "--tensor-parallel"}};
  std::string batches_;
  int64_t steps_ = 10;
  double seconds_ = 5;
  bool ops_ = false;
  SimdFlag simd_;
};

class BenchGenerateCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench generate",
        .summary = "measure how fast a model writes",
        .group = "set-up",
        .details =
            "Measures a prompt, single tokens after contexts of several lengths, and several texts "
            "together. A token reads all weights, so reading the same number of bytes of memory "
            "with all threads is measured in turns with it, as an upper limit.",
        .examples = {"folio bench generate --preset gpt2 --dtype bf16",
                     "folio bench generate --model gpt2 --dtype int8 --positions 10,1000 --json"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"dtype", &dtype_, "number format of the weights; auto: as stored in the file"}
                    .Choices(MatrixDtypeNames()));
    flags.Value(Field{"prompt-tokens", &options_.prompt_tokens, "length of the prompt", 1, 1e9});
    flags.Value(Field{"positions", &positions_,
                      "contexts after which tokens are timed; default 10, or the last position of "
                      "a shorter context"});
    flags.Value(Field{"batches", &batches_, "numbers of sequences that are written together"});
    flags.Switch("--bf16-cache", &bf16_cache_, "keep keys and values in bfloat16");
    flags.Value(Field{"seconds", &options_.seconds, "measure at least this long", 0, 1e6});
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
                                            : ParseNumbers("--positions", positions_, 0, last);
    options_.batches = ParseNumbers("--batches", batches_, 1, Decoder::kFewRows);
    if (bf16_cache_) options_.cache = Dtype::kBF16;
    const MatrixDtype matrices = MatrixDtypeNamed(dtype_);
    double load_seconds = 0;
    std::unique_ptr<GptWeights> random;
    OpenedModel model;
    if (settings_.path().empty()) {
      random = std::make_unique<GptWeights>(config);
      InitWeights(*random, /*seed=*/1);
      model.backend = MakeBackend(train.backend);
      model.weights = MapWeights(AsStored(*random), matrices, {}, model.backend->memory());
    } else {
      load_seconds = SecondsOf([&] {
        model = OpenModel(settings_.path(),
                          {.backend = train.backend, .adapter = adapter_, .matrices = matrices});
      });
    }
    const GenerationTimings timings = MeasureGeneration(*model.backend, *model.weights, options_);
    ShowReport(context.console,
               GenerationReport(settings_.name(), *model.backend, dtype_, load_seconds, timings));
    return 0;
  }

 private:
  ModelSettings settings_{std::vector<std::string>{"--threads", "--backend"}};
  BenchGenerateOptions options_;
  std::string adapter_, dtype_ = "auto", positions_, batches_ = "1,4,16";
  bool bf16_cache_ = false;
  SimdFlag simd_;
};

// --dtype, --seconds, --backend, --threads and --simd, for commands that measure operations.
struct OperationFlags {
  std::string dtype = "both", backend = "cpu";
  double seconds = 0;
  ComputeFlags compute = {};

  void Add(Flags& flags) {
    flags.Value(Field{"dtype", &dtype, "number format; both: all that the backend has"}.Choices(
        {"fp32", "bf16", "both"}));
    flags.Value(Field{"seconds", &seconds, "measure each at least this long", 0, 1e6});
    AddBackendFlag(flags, &backend);
    compute.Add(flags);
  }
  std::unique_ptr<Backend> Use() const {
    compute.Use();
    return MakeBackend(backend);
  }
};

class BenchMatmulCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench matmul",
            .summary = "measure the matrix products of this machine",
            .group = "set-up",
            .details =
                "The three products of a layer in training, over N rows and a weight (I,O): x W\n"
                "forward, d_out W^T and x^T d_out backward. With bf16, x and d_out are bfloat16\n"
                "and the float32 weight is rounded on the way. Products of one size take turns;\n"
                "the peak of a dtype is the highest median.",
            .examples = {"folio bench matmul", "folio bench matmul --dtype bf16 --products gpt2",
                         "folio bench matmul --threads 1 --simd AVX2 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(
        Field{"products", &products_, "sizes of GPT-2, of a small model, or of both"}.Choices(
            {"gpt2", "small", "all"}));
    flags_.Add(flags);
  }

  int Run(const Context& context) override {
    const std::unique_ptr<Backend> backend = flags_.Use();
    const std::vector<Dtype> dtypes = DtypesNamed(flags_.dtype, *backend);
    std::vector<MatmulShape> shapes;
    if (products_ != "small") shapes.assign(Gpt2Matmuls().begin(), Gpt2Matmuls().end());
    if (products_ != "gpt2") {
      shapes.insert(shapes.end(), SmallMatmuls().begin(), SmallMatmuls().end());
    }
    const std::vector<MatmulRate> rates = MeasureMatmuls(*backend, shapes, dtypes, flags_.seconds);
    ShowReport(context.console, MatmulReport(*backend, dtypes, rates));
    return 0;
  }

 private:
  std::string products_ = "all";
  OperationFlags flags_{.seconds = 0.1};
};

class BenchAttentionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench attention",
        .summary = "measure attention, forward and backward",
        .group = "set-up",
        .details =
            "Causal self-attention on random numbers. Arithmetic is counted where the mask\n"
            "lets through; memory is all arrays that a model plans for it, which grow as T\n"
            "does. Without --context it goes through T = 64 to 2048.",
        .examples = {"folio bench attention", "folio bench attention --dtype bf16 --dropout 0.2",
                     "folio bench attention --batch 4 --context 1024 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"batch", &shape_.B, "sequences", 1, 1 << 20});
    flags.Value(Field{"context", &context_, "tokens in a sequence; 0 for several", 0, 1 << 20});
    flags.Value(Field{"heads", &shape_.H, "heads", 1, 1 << 16});
    flags.Value(Field{"head-size", &shape_.D, "channels of a head", 1, 1 << 16});
    flags.Value(Field{"dropout", &shape_.dropout, "part of the weights that is dropped", 0, 0.99});
    flags_.Add(flags);
  }

  int Run(const Context& context) override {
    const std::unique_ptr<Backend> backend = flags_.Use();
    std::vector<int64_t> contexts = {64, 128, 256, 512, 1024, 2048};
    if (context_ > 0) contexts = {context_};
    std::vector<AttentionRate> rates;
    for (const Dtype dtype : DtypesNamed(flags_.dtype, *backend)) {
      for (const int64_t T : contexts) {
        shape_.T = T;
        shape_.dtype = dtype;
        RequireMemory("this benchmark", AttentionBytes(shape_),
                      "lower --batch, --context, --heads or --head-size");
        rates.push_back(MeasureAttention(*backend, shape_, flags_.seconds));
      }
    }
    ShowReport(context.console, AttentionReport(*backend, rates));
    return 0;
  }

 private:
  AttentionShape shape_{};
  int64_t context_ = 0;
  OperationFlags flags_{.seconds = 0.3};
};

class BenchOpsCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench ops",
            .summary = "measure norms, rotary positions, gates and sums",
            .group = "set-up",
            .details =
                "Measures the operations of a block other than products and attention. Memory "
                "bounds them, so a copy of an array by all threads is measured for comparison. "
                "With bf16, operands that models keep in bfloat16 have that type.",
            .examples = {"folio bench ops", "folio bench ops --rows 1 --dtype fp32",
                         "folio bench ops --channels 576 --hidden 1536 --threads 1 --json"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"rows", &shape_.N, "rows", 1, 1 << 24});
    flags.Value(Field{"channels", &shape_.C, "channels of a row", 1, 1 << 20});
    flags.Value(Field{"head-size", &shape_.D, "channels of a head, even", 1, 1 << 16});
    flags.Value(Field{"hidden", &shape_.F, "channels of the hidden layer", 1, 1 << 20});
    flags_.Add(flags);
  }

  int Run(const Context& context) override {
    const std::unique_ptr<Backend> backend = flags_.Use();
    if (shape_.D % 2 != 0 || shape_.C % shape_.D != 0) {
      throw UsageError(
          fmt::format("--channels {} cannot be divided into heads of {}", shape_.C, shape_.D),
          "expected an even --head-size that divides --channels");
    }
    std::vector<RowRate> rates;
    for (const Dtype dtype : DtypesNamed(flags_.dtype, *backend)) {
      shape_.dtype = dtype;
      RequireMemory("this benchmark", RowBytes(shape_), "lower --rows, --channels or --hidden");
      std::ranges::move(MeasureRows(*backend, shape_, flags_.seconds), std::back_inserter(rates));
    }
    ShowReport(context.console, RowReport(*backend, shape_, rates));
    return 0;
  }

 private:
  RowShape shape_{};
  OperationFlags flags_{.seconds = 0.5};
};

class BenchOptimizerCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench optimizer",
        .summary = "measure an optimizer step",
        .group = "set-up",
        .details =
            "Measures the norm of the gradient and AdamW over all parameters. Memory bounds them, "
            "so reading and copying the same arrays with all threads is measured for comparison.",
        .examples = {"folio bench optimizer --preset gpt2",
                     "folio bench optimizer --parameters 1000000 --threads 1 --json"}};
  }

  void AddFlags(Flags& flags) override {
    settings_.AddFlags(flags);
    flags.Value(
        Field{"parameters", &parameters_, "number of parameters, instead of a model's", 0, 1e12});
    flags.Value(Field{"seconds", &seconds_, "measure at least this long", 0, 1e6});
    simd_.Add(flags);
  }

  int Run(const Context& context) override {
    settings_.Read(context.sources);
    const TrainConfig& train = settings_.config().train;
    UseThreads(train.threads);
    simd_.Use();
    RefuseTogether(parameters_ > 0 && settings_.named(), "--parameters", "--preset or --model");
    const int64_t parameters = parameters_ > 0
                                   ? parameters_
                                   : ParamTable(settings_.config().model, train.lora).flat_size();
    RequireMemory("this benchmark", OptimizerBytes(parameters),
                  parameters_ > 0 ? "lower --parameters" : "choose a smaller model");
    const std::unique_ptr<Backend> backend = MakeBackend(train.backend);
    const OptimizerRates rates = MeasureOptimizer(*backend, parameters, seconds_);
    ShowReport(context.console, OptimizerReport(*backend, parameters, rates));
    return 0;
  }

 private:
  ModelSettings settings_{std::vector<std::string>{"--threads", "--backend"}};
  int64_t parameters_ = 0;
  double seconds_ = 1;
  SimdFlag simd_;
};

constexpr TokenizerMeasure kMeasures[] = {TokenizerMeasure::kLoad, TokenizerMeasure::kFirst,
                                          TokenizerMeasure::kEncode, TokenizerMeasure::kDecode,
                                          TokenizerMeasure::kTrain};

// Returns the members of `known` that `given` names, all of them if it is empty; the Error for an
// unknown one names `flag`.
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
      throw UsageError(fmt::format("{}: unknown name '{}'", flag, text),
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
            .summary = "measure encoding and decoding",
            .group = "set-up",
            .details =
                "Measures generated text in English, program code, Chinese, Japanese and Russian, "
                "or files: in calls of 1 KB, of 1 MB and of the whole text; cold, with a newly "
                "loaded tokenizer, and warm; on one thread and on all. Speeds are bytes of text "
                "per second, and their share of memcpy of the same bytes.",
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
    ShowReport(context.console, TokenizerReport(options_, timings));
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

// A service in this process, like that of `folio serve`.
class LocalService {
  static constexpr int kClients = 4096;  // all on this machine

 public:
  LocalService(OpenedModel model, int64_t slots)
      : service_({.scheduler = {.slots = slots, .queue = 256}}, {}),
        serving_(service_, "127.0.0.1", 0,
                 {.connections = kClients, .client_connections = kClients}) {
    ReturnFreedMemory();  // like folio serve
    service_.Add("model", std::move(model));
    serving_.Begin();
  }
  int port() const { return serving_.port(); }

 private:
  Service service_;
  BackgroundServer serving_;
};

class BenchServeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench serve",
            .summary = "measure a service with many clients",
            .group = "set-up",
            .details =
                "Starts a service of the model in this process, or uses a running one (--port; any "
                "program with OpenAI's interface), and sends requests over loopback: each client "
                "streams a completion of --max-tokens tokens, and then the next. The first row is "
                "one client of a service with one slot. Answers must not depend on other requests: "
                "answers that differ from earlier answers to the same request are counted.",
            .examples = {"folio bench serve --model runs/demo",
                         "folio bench serve --model runs/demo --clients 1,8,64 --seconds 20 --json",
                         "folio bench serve --port 8080"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/false);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"port", &port_, "of a service that runs on this machine", 1, 65535});
    flags.Value(Field{"clients", &clients_, "numbers of clients to measure, one after the other"});
    flags.Value(Field{"slots", &slots_, "texts that the service writes at once", 1, 1024});
    flags.Value(Field{"seconds", &seconds_, "time for each number of clients", 0.1, 3600});
    flags.Value(Field{"max-tokens", &max_tokens_, "of each completion", 1, 1e6});
    flags.Value(Field{"prompts", &prompts_, "a text whose lines are the prompts"},
                {.placeholder = "FILE"});
    flags.Value(Field{"dtype", &dtype_, "as in folio serve"}.Choices(MatrixDtypeNames()));
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    compute_.Use();
    RequireModelFor(adapter_, model_);
    if (model_.empty() == !port_) {
      throw UsageError("give a model or a service",
                       "--model starts a service, --port uses a running one",
                       "folio bench serve --model RUN");
    }
    Json rows = Json::array();
    if (!port_) Measure(context, "1 slot", 1, {1, 8}, rows);
    Measure(context, port_ ? fmt::format("port {}", *port_) : fmt::format("{} slots", slots_),
            slots_, ParseNumbers("--clients", clients_, 1, 1000), rows);
    if (context.console.json()) {
      context.console.Result(
          Json{{"schema", 1}, {"max_tokens", max_tokens_}, {"rows", rows}}.dump() + "\n");
    }
    return 0;
  }

 private:
  std::vector<std::string> Prompts() const {
    if (prompts_.empty()) {
      return {"Once upon a time",     "The",     "In the morning",           "She said",
              "There was a king who", "What is", "He went to the house and", "It is"};
    }
    constexpr uint64_t kMost = 64 << 20;
    constexpr size_t kMostPrompts = 1000, kLongest = 200;
    std::vector<std::string> prompts;
    for (const std::string& line : Split(ReadFile(prompts_, kMost), '\n')) {
      if (prompts.size() == kMostPrompts) break;
      if (!line.empty())
        prompts.push_back(line.substr(0, CompleteUtf8Prefix(line.substr(0, kLongest))));
    }
    if (prompts.empty()) throw InputError(fmt::format("{}: no lines", prompts_));
    return prompts;
  }

  void Measure(const Context& context, const std::string& name, int64_t slots,
               const std::vector<int64_t>& clients, Json& rows) const {
    std::optional<LocalService> local;
    if (!port_) {
      local.emplace(OpenModel(model_, {.adapter = adapter_, .matrices = MatrixDtypeNamed(dtype_)}),
                    slots);
    }
    LoadGenerator generator({.port = local ? local->port() : static_cast<int>(*port_),
                             .prompts = Prompts(),
                             .max_tokens = max_tokens_,
                             .seconds = seconds_});
    for (const int64_t count : clients) {
      const LoadResult result = generator.Run(static_cast<int>(count));
      Json row = result.json();
      row["service"] = name;
      rows.push_back(row);
      if (context.console.json()) continue;
      context.console.Result(fmt::format(
          "{:>8}, {:>3} clients: {:7.1f} requests/s {:8.0f} tokens/s  first token {:6.1f} ms "
          "(p99 {:6.1f})  refused {} failed {} different {}\n",
          name, count, static_cast<double>(result.requests) / result.seconds,
          static_cast<double>(result.tokens) / result.seconds,
          LoadResult::Quantile(result.first_token, 0.5) * 1e3,
          LoadResult::Quantile(result.first_token, 0.99) * 1e3, result.refused, result.failed,
          result.different));
    }
  }

  std::string model_, adapter_, prompts_, dtype_ = "auto", clients_ = "1,8,64";
  std::optional<int64_t> port_;
  int64_t slots_ = 8, max_tokens_ = 64;
  double seconds_ = 10;
  ComputeFlags compute_;
};

}  // namespace

CommandList BenchCommands() {
  return CommandsOf<BenchTrainCommand, BenchMatmulCommand, BenchAttentionCommand, BenchOpsCommand,
                    BenchGenerateCommand, BenchOptimizerCommand, BenchServeCommand,
                    BenchTokenizerCommand>();
}

}  // namespace folio
