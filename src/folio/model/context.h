#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/backend/backend.h"
#include "folio/model/config.h"
#include "folio/model/lora.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

namespace folio {

// A kind of pass over B sequences of T tokens, from which follows how long its buffers live.
enum class PassKind {
  kForward,   // logits or loss only: a buffer lives until the next operations have read it
  kTraining,  // the backward follows: what it reads lives until then
  kDecode,    // T rows of sequences that grow, whose keys and values a KvCache has (B is 1)
};

// The way in which a pass computes, and its part of the model.
struct PassOptions {
  // F32, F64, or BF16: then what ops.h marks Low is bfloat16, and all else float32.
  Dtype dtype = Dtype::kF32;
  // kTraining: the backward recomputes the cheap activations instead of keeping them, to the same
  // bits: results of activation functions, and of pre-norm blocks' LayerNorms.
  bool recompute = false;
  // A sequence may be of several texts (GptPass::set_begins).
  bool packed = false;
  LoraConfig lora = {};  // the adapters of its linear layers
  Shard shard = {};      // of its layers, where ranks share them
  // The forms that its backend wants, and Memory::row_multiple: set by On.
  BackendPreferences preferences = {};
  int64_t row_multiple = 1;

  // These options on a backend.
  PassOptions On(Backend& backend) const {
    PassOptions options = *this;
    options.preferences = backend.preferences();
    options.row_multiple = backend.memory().row_multiple();
    return options;
  }

  // The dtype of weights, of the stream and of the losses.
  Dtype number() const { return dtype == Dtype::kBF16 ? Dtype::kF32 : dtype; }
  bool operator==(const PassOptions&) const = default;
};

// A pass over B sequences of T tokens.
struct PassShape {
  const GptConfig& config;
  int64_t B = 1, T = 1;
  PassKind kind = PassKind::kForward;
  PassOptions options = {};

  int64_t N() const { return B * T; }
  const Shard& shard() const { return options.shard; }
  const LoraConfig& lora() const { return options.lora; }
  HeadLayout heads() const { return config.head_layout().ShardOf(shard()); }
  int64_t F() const { return shard().Size(config.inner()); }
  int64_t up_width() const { return config.gated() ? 2 * F() : F(); }
  // Tokens of this shard, and the columns of their logits, with padding.
  int64_t V() const { return shard().Size(config.vocab_size); }
  int64_t W() const { return RoundUp(V(), options.row_multiple); }
  bool training() const { return kind == PassKind::kTraining; }
};

// Dropout of a training pass: whether the configuration's rates apply, and which random numbers
// belong to it.
struct DropoutContext {
  bool on = false;
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sequence = 0;  // of the micro-batch, in the whole batch of the step
};

// A place of dropout in a block, which the layer that has it declares.
struct DropoutPlace {
  enum Rows : uint8_t {
    kRows,   // (N,C), which every shard has
    kHeads,  // weights of attention, of the heads of a shard
    kInner,  // (N,F), of which a shard has some columns
  };

  uint64_t number = 0;                // of its random numbers; no two places of a block share one
  double GptConfig::*rate = nullptr;  // null in front of adapters: theirs
  Rows rows = kRows;                  // the rows that it drops from
};

// Places in a pass where its insides can be taken, in the order of a pass with norm_position "pre".
// N rows of the width given. With "post" ln_1 stands behind kMiddle, which is what it is given, and
// ln_2 at the end, where its result is kOutput too. With `backout` kOutput of the last block is
// what is left of its stream, for ln_f.
enum class TracePoint {
  kEmbedded,   // (N,C) token and position embeddings, what the first block sees; layer 0
  kNorm1,      // (N,C) result of ln_1
  kQkv,        // (N,(H+2K)D) queries, keys and values
  kHeads,      // (N,HD) the heads' contexts side by side, before c_proj
  kAttention,  // (N,C) result of the attention sublayer, before it joins the stream
  kMiddle,     // (N,C) the stream after attention
  kNorm2,      // (N,C) result of ln_2
  kUp,         // (N,F) c_fc's result, before the activation; (N,2F), gate | up, of a gated one
  kActivated,  // (N,F) after it
  kMlp,        // (N,C) result of the feed-forward sublayer, before it joins the stream
  kOutput,     // (N,C) the stream after the block
  kFinal,      // (N,C) result of ln_f; layer 0
};

// A row of the list of points: its name, for people and for keys, the width of its rows, and
// whether a pass has it once instead of in each block.
struct TracePointInfo {
  using WidthOf = int64_t (*)(const GptConfig& config);
  static int64_t C(const GptConfig& config) { return config.n_embd; }
  static int64_t F(const GptConfig& config) { return config.inner(); }
  static int64_t Up(const GptConfig& config) { return config.up_width(); }
  static int64_t Qkv(const GptConfig& config) { return config.head_layout().qkv_width(); }
  static int64_t Heads(const GptConfig& config) { return config.head_layout().q_width(); }

  std::string_view name;
  WidthOf width = &C;
  bool once = false;
};

// The points by their numbers.
inline constexpr auto kTracePoints = std::to_array<TracePointInfo>({
    {.name = "embedded", .once = true},
    {.name = "ln_1"},
    {.name = "qkv", .width = &TracePointInfo::Qkv},
    {.name = "heads", .width = &TracePointInfo::Heads},
    {.name = "attention"},
    {.name = "middle"},
    {.name = "ln_2"},
    {.name = "up", .width = &TracePointInfo::Up},
    {.name = "activated", .width = &TracePointInfo::F},
    {.name = "mlp"},
    {.name = "output"},
    {.name = "final", .once = true},
});

// Returns the row of a point.
constexpr const TracePointInfo& InfoOf(TracePoint point) {
  return kTracePoints[static_cast<size_t>(point)];
}

// Receives the insides of a pass as they come. A pass without one does nothing for it.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // `x` is the host's, and is overwritten by what comes later: copy what must last.
  virtual void Take(TracePoint point, int64_t layer, const Tensor& x) = 0;
};

// Synchronises a pass with its parameters, layer by layer: parameters may still arrive while the
// forward runs, and gradients may leave while the backward does. Layer -1 is the
// embeddings, n_layer the head with ln_f, where it has parameters of its own.
class LayerGate {
 public:
  virtual ~LayerGate() = default;
  // The forward is about to read a layer's parameters.
  virtual void BeforeForward(int64_t layer) = 0;
  // The backward is about to write gradients of a layer, and they are what they stay. Those of
  // biases and LayerNorms, and of a wte that is the head's too, come to rest with layer -1.
  virtual void BeforeBackward(int64_t layer) = 0;
  virtual void AfterBackward(int64_t layer) = 0;
};

class TensorParallelGroup;

// Rows of a pass whose keys and values go to a KvCache, and which attend to what is there: those of
// one sequence, or few rows of any.
struct CachedRows {
  std::span<const Tensor> pages = {};  // of the KvCache, of each layer
  Tensor tables = {};                  // (N,W) i32, as in ops.h
  Tensor window_tables = {};           // likewise, of layers with windows
  Tensor keys, values = {};            // (P,KD), room for those of a sequence
  int64_t S = 0;  // keys of the sequence, where it is one: with those of the rows
};

// The state of a pass that its sublayers share.
struct PassContext {
  Backend& backend;
  const GptConfig& config;
  const LoraConfig& lora = NoAdapters();
  Shard shard = {};
  int64_t B = 0, T = 0;
  Tensor key_mask = {};  // (B,T) u8, optional: keys that may be attended to
  Tensor mask = {};      // (B or 1,1,T,T) u8 or Number, optional: see ops.h
  DropoutContext dropout = {};
  TraceSink* trace = nullptr;
  LayerGate* gate = nullptr;
  TensorParallelGroup* group = nullptr;  // of a shard: the ranks that have all shards
  Tensor positions = {};                 // (B,T) i32, optional: of each token, instead of 0 to T-1
  const CachedRows* cached = nullptr;    // optional, with positions
  std::array<Tensor, 2> angles = {};     // (N,r), of rotary positions (layers/rotary.h)
  Tensor ids = {};                       // (B,T) i32, of its rows
  bool residual_norm = false;            // BackendPreferences'
  bool accumulate = true;  // backward: gradients of matrices are added to what is there

  int64_t N() const { return B * T; }
  HeadLayout heads() const { return config.head_layout().ShardOf(shard); }
  // Shows `x` to the trace, if there is one.
  void Show(TracePoint point, int64_t layer, const Tensor& x) const {
    if (trace != nullptr) trace->Take(point, layer, HostCopy(x).tensor());
  }
  // Adds up what the shards of a layer give, in place.
  void Sum(const Tensor& x) const;

  // `rows_per_sequence`: rows that one sequence has in the array that is dropped from.
  Dropout DropoutAt(double p, uint64_t place, int64_t rows_per_sequence) const;
  Dropout EmbeddingDropout() const { return DropoutAt(config.embd_pdrop, 0, T); }
  Dropout BlockDropout(int64_t layer, const DropoutPlace& place) const;
  // Drops elements of x (N,...) in place, if `at` is active: of a value, or, which is the same, of
  // its gradient.
  void Drop(const Tensor& x, const Dropout& at) const;
};

}  // namespace folio
