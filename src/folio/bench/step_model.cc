#include "folio/bench/step_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/math.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/model/params.h"
#include "folio/ranks/group.h"
#include "folio/tensor/dtype.h"
#include "folio/train/buckets.h"
#include "folio/train/gradient_sum.h"
#include "folio/train/optimizer.h"
#include "folio/train/train_step.h"

namespace folio {

uint64_t SimulatedGroup::Begin(double now, const AllToAllCost& cost) {
  queue_.push_back({.begun = now, .cost = cost});
  return ++begun_;
}

double SimulatedGroup::Wait(double now, uint64_t ticket) {
  FOLIO_CHECK(ticket <= begun_, "nobody began it");
  // Nothing else is begun until then, so that the thread's future is known as far as it is needed.
  RunUntilDone(ticket);
  // A later time of the thread is the end of this all-to-all: it has done nothing after it.
  const double then = ticket == 0 ? now : std::max(now, thread_);
  seconds_waited_ += then - now;
  return then;
}

void SimulatedGroup::RunUntilDone(uint64_t ticket) {
  while (done_ < ticket) {
    const bool room = under_way_.size() < AllToAll::kInFlight && !queue_.empty();
    if (room && (under_way_.empty() || queue_.front().begun <= thread_)) {
      thread_ = std::max(thread_, queue_.front().begun);
      if (under_way_.empty()) busy_since_ = thread_;
      const AllToAllCost cost = queue_.front().cost;
      queue_.pop_front();
      thread_ += cost.prepare;
      link_ = std::max(link_, thread_) + cost.wire;
      under_way_.push_back({.here = link_ + cost.flight, .finish = cost.finish});
      continue;
    }
    const double here = under_way_.front().here;
    if (room && here > thread_ && queue_.front().begun < here) {
      thread_ = queue_.front().begun;
      continue;
    }
    thread_ = std::max(thread_, here) + under_way_.front().finish;
    under_way_.pop_front();
    ++done_;
    if (under_way_.empty()) seconds_ += thread_ - busy_since_;
  }
}

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kBitsOfByte = 8;

// A bucket as the busiest rank sees it.
struct BucketShare {
  BucketShare(const ShardBucket& bucket, int ranks, const OptimizerSettings& optimizer)
      : layer(bucket.layer), size(static_cast<double>(bucket.size())) {
    const int64_t blocks = (bucket.size() + Shards::kBlock - 1) / Shards::kBlock;
    const int64_t most = (blocks + ranks - 1) / ranks;
    piece = static_cast<double>(std::min(bucket.size(), most * Shards::kBlock));
    others = std::max(size * (ranks - 1) / ranks, (ranks - 1) * piece);
    const auto passes = static_cast<double>(UpdatePasses(optimizer, bucket.group));
    update_bytes = passes * piece * sizeof(float);
  }

  int64_t layer;
  double size;    // elements
  double piece;   // elements of the rank that has most of them
  double others;  // that this rank receives from the others, or sends to them, whichever is more
  double update_bytes;  // that the optimizer reads and writes for the piece
};

// The seconds of the parts of a step of a rank that never waits.
struct Durations {
  Durations(const TrainShape& shape, const RankRates& rank) {
    const GptConfig& model = shape.model;
    const TrainFlops flops(model, shape.T, shape.options.lora);
    const double layers = static_cast<double>(model.n_layer);
    const double head = static_cast<double>(model.vocab_size) * static_cast<double>(model.n_embd);
    const double trained_head = shape.options.lora.on() ? 0 : head;
    const double blocks = static_cast<double>(flops.matrix_parameters) - head;
    const double trained = static_cast<double>(flops.trained_parameters) - trained_head;
    const double second =
        static_cast<double>(shape.B) * static_cast<double>(shape.T) / rank.flops_per_second;
    const double attention = flops.attention_per_token / 3;  // forward; backward is twice that
    block_forward = second * (2 * blocks + attention) / layers;
    block_backward = second * (2 * blocks + 2 * trained + 2 * attention) / layers;
    head_both = second * (4 * head + 2 * trained_head);
  }

  double block_forward = 0, block_backward = 0, head_both = 0;
};

// A rank that goes through steps as TrainStep does, in simulated time.
class SimulatedRank {
 public:
  SimulatedRank(const TrainShape& shape, const RankRates& rank, const NetworkRates& network)
      : ranks_(shape.ranks),
        layers_(shape.model.n_layer),
        turns_(shape.grad_accumulation / shape.ranks),
        every_(shape.reduce_every),
        reduce_bytes_(static_cast<double>(DtypeSize(shape.reduce))),
        rank_(rank),
        network_(network),
        durations_(shape, rank) {
    const ParamTable table(shape.model, shape.options.lora);
    for (const ShardBucket& bucket : BucketsOf(table)) {
      buckets_.emplace_back(bucket, ranks_, shape.optimizer);
      elements_ += buckets_.back().size;
      norm_bytes_ += buckets_.back().piece * sizeof(float);
      update_bytes_ += buckets_.back().update_bytes;
    }
    std::ranges::stable_sort(buckets_, {}, &BucketShare::layer);
    reduced_.resize(static_cast<size_t>(layers_) + 2);
    gathered_ = reduced_;
    places_.resize(static_cast<size_t>(GradientSum::PlacesOf(layers_, every_)));
  }

  StepPrediction Run() {
    StepPrediction step;
    step.forward = turns_ * static_cast<double>(layers_) * durations_.block_forward;
    step.backward =
        turns_ * (static_cast<double>(layers_) * durations_.block_backward + durations_.head_both);
    step.optimizer = (norm_bytes_ + update_bytes_) / rank_.memory_bytes_per_second;
    if (ranks_ == 1) {
      const double adding = elements_ * kAddBytes / rank_.memory_bytes_per_second;
      const int64_t added = turns_ / every_ - 1;
      step.optimizer += static_cast<double>(added) * adding;
      step.seconds = step.computing();
      return step;
    }
    // The group's thread takes processor time from those that compute: a first step at full speed
    // shows how much slower they are.
    TakeStep();
    const double stolen = rank_.threads == 0 ? 0 : thread_seconds_ / rank_.threads;
    slower_ = 1 + stolen / step.computing();
    for (int i = 0; i < kStepsBefore; ++i) TakeStep();
    const SimulatedGroup before = group_;
    const double begin = now_;
    bytes_sent_ = messages_ = thread_seconds_ = 0;
    TakeStep();
    step.seconds = now_ - begin;
    step.communication = group_.seconds() - before.seconds();
    step.waited = group_.seconds_waited() - before.seconds_waited();
    step.thread = thread_seconds_;
    const double share = static_cast<double>(ranks_ - 1) / ranks_;
    step.reduce_bytes = share * elements_ * reduce_bytes_ / static_cast<double>(every_);
    step.gather_bytes = share * elements_ * sizeof(float);
    step.bytes_sent = bytes_sent_;
    step.messages = messages_;
    return step;
  }

 private:
  static constexpr int kStepsBefore = 2;                  // until one step is as the other
  static constexpr double kAddBytes = 3 * sizeof(float);  // two are read, one is written
  static constexpr int kSmallGathers = 3;                 // of a Trainer: losses, seconds, flags
  static constexpr double kEager = 1 << 16;               // longer messages ask before they come

  void Compute(double seconds) { now_ += seconds * slower_; }
  void Wait(uint64_t ticket) { now_ = group_.Wait(now_, ticket); }
  size_t Index(int64_t layer) const { return static_cast<size_t>(layer + 1); }

  // Sends and receives so many bytes at most, in `bytes_sent` those of the average rank, in
  // messages of that size; the group's thread reads so many bytes before and after.
  uint64_t Begin(double wire_bytes, double bytes_sent, double packed, double summed) {
    const double others = ranks_ - 1;
    bytes_sent_ += bytes_sent;
    messages_ += others;
    const double flights = wire_bytes / others > kEager ? 3 : 1;
    const AllToAllCost cost = {
        .prepare = packed / rank_.sum_bytes_per_second + others * network_.seconds_per_message,
        .wire = wire_bytes * kBitsOfByte / network_.bits_per_second,
        .flight = flights * network_.latency,
        .finish = summed / rank_.sum_bytes_per_second};
    thread_seconds_ += cost.prepare + cost.finish;
    return group_.Begin(now_, cost);
  }

  void Reduce(int64_t layer) {
    const double share = static_cast<double>(ranks_ - 1) / ranks_;
    const bool packs = reduce_bytes_ < sizeof(float);
    for (const BucketShare& bucket : buckets_) {
      if (bucket.layer != layer) continue;
      reduced_[Index(layer)] =
          Begin(bucket.others * reduce_bytes_, share * bucket.size * reduce_bytes_,
                packs ? bucket.size * sizeof(float) : 0, ranks_ * bucket.piece * reduce_bytes_);
    }
  }

  void MicroBatch(int64_t turn) {
    const bool sends = (turn + 1) % every_ == 0;
    for (int64_t layer = -1; layer <= layers_; ++layer) {
      Wait(gathered_[Index(layer)]);
      if (layer >= 0 && layer < layers_) Compute(durations_.block_forward);
    }
    Wait(std::max(reduced_[Index(-1)], reduced_[Index(layers_)]));
    Compute(durations_.head_both);
    if (sends) Reduce(layers_);
    for (int64_t layer = layers_; layer-- > 0;) {
      uint64_t& place = places_[static_cast<size_t>(layer) % places_.size()];
      Wait(place);
      Compute(durations_.block_backward);
      if (!sends) continue;
      Reduce(layer);
      place = std::max(place, reduced_[Index(layer)]);
    }
    if (sends) Reduce(-1);
  }

  void TakeStep() {
    for (int64_t turn = 0; turn < turns_; ++turn) MicroBatch(turn);
    Wait(*std::ranges::max_element(reduced_));
    Compute(norm_bytes_ / rank_.memory_bytes_per_second);
    // Ranks tell each other the sum of squares of each block of elements, then what a Trainer
    // tells.
    const double share = static_cast<double>(ranks_ - 1) / ranks_;
    const double sums = share * elements_ / Shards::kBlock * sizeof(double);
    Wait(Begin(sums, sums, 0, 0));
    for (int i = 0; i < kSmallGathers; ++i) Wait(Begin(0, 0, 0, 0));
    for (const BucketShare& bucket : buckets_) {
      Compute(bucket.update_bytes / rank_.memory_bytes_per_second);
      gathered_[Index(bucket.layer)] =
          Begin(bucket.others * sizeof(float), share * bucket.size * sizeof(float), 0, 0);
    }
  }

  const int ranks_;
  const int64_t layers_, turns_, every_;
  const double reduce_bytes_;
  const RankRates rank_;
  const NetworkRates network_;
  const Durations durations_;
  std::vector<BucketShare> buckets_;  // by layer: as the next forward needs them
  double elements_ = 0;
  double norm_bytes_ = 0, update_bytes_ = 0;  // that the norm and the optimizer read and write
  double slower_ = 1;

  SimulatedGroup group_;
  double now_ = 0, bytes_sent_ = 0, messages_ = 0, thread_seconds_ = 0;
  std::vector<uint64_t> reduced_, gathered_;  // last tickets of layers, from -1 to n_layer
  std::vector<uint64_t> places_;              // that the gradients of blocks take in turns
};

// Returns the cause without which the step would be shortest.
StepBound BoundOf(const TrainShape& shape, const RankRates& rank, const NetworkRates& network,
                  double seconds, double computing) {
  constexpr double kLittle = 1.1;
  if (seconds <= kLittle * computing) return StepBound::kCompute;
  NetworkRates wide = network, prompt = network;
  wide.bits_per_second = kInfinite;
  prompt.latency = prompt.seconds_per_message = 0;
  RankRates adder = rank;
  adder.sum_bytes_per_second = kInfinite;
  const std::pair<double, StepBound> without[] = {
      {SimulatedRank(shape, rank, wide).Run().seconds, StepBound::kNetwork},
      {SimulatedRank(shape, rank, prompt).Run().seconds, StepBound::kMessages},
      {SimulatedRank(shape, adder, network).Run().seconds, StepBound::kSums}};
  return std::ranges::min_element(without, {}, &std::pair<double, StepBound>::first)->second;
}

constexpr double kPassSeconds = 3;  // that forward and backward are measured for
constexpr int kPasses = 3;

double FlopsOf(const BenchTrainOptions& options) {
  return TrainFlops(options.model, options.T, options.pass.lora)
      .per_step(options.train.batch_size * options.T);
}

void RequirePart(const BenchTrainOptions& part) {
  const TrainShape shape{.model = part.model, .B = 1, .T = part.T, .options = part.pass};
  const uint64_t bytes = PlannedBytes(shape);
  const MachineMemory memory = ThisMachinesMemory();
  if (memory.available == 0 || bytes < memory.available / 10 * 9) return;
  throw Error(
      ErrorKind::kResource, "a layer of this model is too large to measure on this machine",
      fmt::format("it needs {}, and {} are free", HumanBytes(bytes), HumanBytes(memory.available)),
      "give the speed of a rank: --flops-per-second 1e12");
}

// Bytes a second of one thread that adds two arrays as a rank's group adds gradients.
double SumRate() {
  constexpr size_t kElements = 4 << 20, kStrip = 2048;
  constexpr int kRounds = 8;
  std::vector<float> sum(kElements), one(kElements, 1.0F), two(kElements, 2.0F);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    seconds.push_back(SecondsOf([&] {
      for (size_t begin = 0; begin < kElements; begin += kStrip) {
        for (const std::vector<float>* part : {&one, &two}) {
          for (size_t i = begin; i < begin + kStrip; ++i) sum[i] += (*part)[i];
        }
      }
    }));
  }
  return 2 * kElements * sizeof(float) / Median(seconds);
}

struct Unit {
  std::string_view name;
  double value;
};

// A number of at least 0 and one of the units behind it; or NaN.
double ParseWithUnit(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || !std::isfinite(number) || number < 0) return std::nan("");
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (rest == unit.name) return number * unit.value;
  }
  return number == 0 && rest.empty() ? 0 : std::nan("");
}

}  // namespace

StepPrediction PredictStep(const TrainShape& shape, const RankRates& rank,
                           const NetworkRates& network) {
  FOLIO_CHECK(shape.ranks >= 1 && shape.grad_accumulation >= shape.ranks &&
                  shape.grad_accumulation % (shape.ranks * shape.reduce_every) == 0,
              "ranks share the micro-batches evenly");
  FOLIO_CHECK(rank.flops_per_second > 0 && rank.memory_bytes_per_second > 0 &&
                  rank.sum_bytes_per_second > 0 && network.bits_per_second > 0,
              "a rate is positive");
  StepPrediction step = SimulatedRank(shape, rank, network).Run();
  step.memory = PlannedBytes(shape);
  step.tokens = shape.B * shape.T * shape.grad_accumulation;
  step.flops = TrainFlops(shape.model, shape.T, shape.options.lora).per_step(step.tokens);
  step.bound = BoundOf(shape, rank, network, step.seconds, step.computing());
  return step;
}

RankRates MeasureMemoryRates(Backend& backend) {
  constexpr int64_t kParameters = 8 << 20;
  const OptimizerRates optimizer = MeasureOptimizer(backend, kParameters, 0.3);
  return {.memory_bytes_per_second = optimizer.bytes_per_step() / optimizer.seconds_per_step(),
          .sum_bytes_per_second = SumRate(),
          .threads = Threads()};
}

RankRates MeasureRankRates(Backend& backend, const BenchTrainOptions& options) {
  RankRates rates = MeasureMemoryRates(backend);
  BenchTrainOptions part = options;
  part.train.batch_size = part.model.n_layer = 1;
  part.T = std::min<int64_t>(options.T, 32);
  RequirePart(part);
  const double most =
      MeasureStepRate(backend, part, 1, /*optimizer=*/false) * kPassSeconds / (kPasses + 1);
  const MachineMemory memory = ThisMachinesMemory();
  const auto fits = [&](const BenchTrainOptions& tried) {
    const TrainShape shape{
        .model = tried.model, .B = tried.train.batch_size, .T = tried.T, .options = tried.pass};
    return FlopsOf(tried) <= most &&
           (memory.available == 0 || PlannedBytes(shape) < memory.available / 10 * 9);
  };
  const int64_t shortest = part.T;
  part.T = options.T;
  if (!fits(part)) part.T = shortest;
  // As much as fits of what costs least to leave out last: layers are all alike.
  const auto grow = [&](int64_t& value, int64_t wanted) {
    const int64_t first = value;
    for (value = wanted; value > first && !fits(part);) value = std::max(first, value / 2);
  };
  grow(part.train.batch_size, options.train.batch_size);
  grow(part.model.n_layer, options.model.n_layer);
  rates.flops_per_second = MeasureStepRate(backend, part, kPasses, /*optimizer=*/false);
  return rates;
}

double ParseBitsPerSecond(const std::string& text, const std::string& flag) {
  static constexpr Unit kUnits[] = {
      {"bit", 1},   {"Kbit", 1e3},   {"Mbit", 1e6},   {"Gbit", 1e9},   {"Tbit", 1e12},
      {"bit/s", 1}, {"Kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}, {"Tbit/s", 1e12}};
  const double bits = ParseWithUnit(text, kUnits);
  if (bits > 0) return bits;
  throw UsageError(
      fmt::format("{}: '{}' is not a bandwidth", flag, text),
      "expected a number above 0 with the unit bit, Kbit, Mbit, Gbit or Tbit (per second)",
      fmt::format("for example {} 10Gbit,100Gbit", flag));
}

double ParseShortTime(const std::string& text, const std::string& flag) {
  static constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const double seconds = ParseWithUnit(text, kUnits);
  if (seconds >= 0) return seconds;
  throw UsageError(fmt::format("{}: '{}' is not a time", flag, text),
                   "expected a number with the unit ns, us, ms or s",
                   fmt::format("for example {} 20us", flag));
}

std::string HumanBits(double bits_per_second) {
  const char* unit = "bit/s";
  for (const auto& [value, name] : {std::pair{1e12, "Tbit/s"}, std::pair{1e9, "Gbit/s"},
                                    std::pair{1e6, "Mbit/s"}, std::pair{1e3, "Kbit/s"}}) {
    if (bits_per_second < value) continue;
    bits_per_second /= value;
    unit = name;
    break;
  }
  return fmt::format("{:.4g} {}", bits_per_second, unit);
}

}  // namespace folio
