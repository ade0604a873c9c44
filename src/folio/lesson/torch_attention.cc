#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/safetensors.h"
#include "folio/lesson/attention_weights.h"

namespace folio {
namespace {

// The tensors of one torch.nn.MultiheadAttention, each looked at at most once.
class TorchState {
 public:
  TorchState(const std::filesystem::path& path, const std::string& prefix)
      : file_(path), prefix_(prefix) {}

  bool Has(const char* name) const { return file_.Find(prefix_ + name) != nullptr; }

  void Require(const char* name, const Shape& shape) {
    file_.Require(prefix_ + name, shape);
    used_.insert(prefix_ + name);
  }

  // The columns of a matrix. Throws unless it has `rows` of them (any number if 0), and elements.
  int64_t Columns(const char* name, int64_t rows) const {
    const Shape& shape = file_.Require(prefix_ + name).shape;
    if (shape.rank() == 2 && (rows == 0 || shape[0] == rows) && shape.count() > 0) return shape[1];
    throw InputError(
        fmt::format("{}: tensor \"{}{}\" has the wrong shape", path(), prefix_, name),
        fmt::format("expected a matrix{}, found {}",
                    rows == 0 ? "" : fmt::format(" of {} rows", rows), shape.ToString()));
  }

  // Throws for tensors behind the prefix that were not required.
  void RefuseOthers() const {
    for (const TensorInfo& info : file_.tensors()) {
      if (!info.name.starts_with(prefix_) || used_.contains(info.name)) continue;
      const std::string_view rest = std::string_view(info.name).substr(prefix_.size());
      const bool added = rest == "bias_k" || rest == "bias_v";
      throw InputError(
          fmt::format("{}: tensor \"{}\" has no place in attention", path(), info.name),
          added ? "it is a learned key or value, of a layer made with add_bias_kv=True"
                : fmt::format("behind the prefix \"{}\" only torch.nn.MultiheadAttention's own "
                              "tensors may stand",
                              prefix_),
          added ? "use a layer made with add_bias_kv=False"
                : "give the prefix of the layer itself, such as \"layers.0.self_attn.\"");
    }
  }

  template <class T>
  std::vector<T> Read(const char* name) const {
    return file_.ReadAs<T>(prefix_ + name);
  }

  std::string path() const { return file_.path().string(); }

 private:
  SafetensorsFile file_;
  std::string prefix_;
  std::set<std::string> used_;
};

constexpr const char* kPackedWeight = "in_proj_weight";
constexpr const char* kPackedBias = "in_proj_bias";
constexpr const char* kWeights[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
constexpr const char* kOutWeight = "out_proj.weight";
constexpr const char* kOutBias = "out_proj.bias";

bool Packed(const TorchState& state) {
  return state.Has(kPackedWeight) || !state.Has(kWeights[0]);
}

AttentionSizes CheckedSizes(TorchState& state, int64_t H) {
  const int64_t C = state.Columns(kOutWeight, 0);
  AttentionSizes sizes = {.d_in = C, .d_out = C, .H = H, .out_proj = true};
  state.Require(kOutWeight, {C, C});
  if (Packed(state)) {
    state.Require(kPackedWeight, {3 * C, C});
  } else {
    const int64_t kdim = state.Columns(kWeights[1], C), vdim = state.Columns(kWeights[2], C);
    if (kdim != vdim) {
      throw InputError(
          fmt::format("{}: keys and values are made from different sizes", state.path()),
          fmt::format("kdim is {}, vdim is {}; both must come from one sequence", kdim, vdim),
          "use a layer with kdim = vdim");
    }
    sizes.d_kv_in = kdim;
    state.Require(kWeights[0], {C, C});
    state.Require(kWeights[1], {C, kdim});
    state.Require(kWeights[2], {C, kdim});
  }
  sizes.bias = sizes.out_bias = state.Has(kPackedBias) || state.Has(kOutBias);
  if (sizes.bias) {
    state.Require(kPackedBias, {3 * C});
    state.Require(kOutBias, {C});
  }
  state.RefuseOthers();
  return sizes;
}

// Fills (in,out) from (out,in).
template <class T>
void FillTransposed(const T* from, const Tensor& to) {
  const int64_t I = to.dim(0), O = to.dim(1);
  for (int64_t i = 0; i < I; ++i) {
    for (int64_t o = 0; o < O; ++o) to.data<T>()[i * O + o] = from[o * I + i];
  }
}

template <class T>
void CopyState(const TorchState& state, const AttentionWeights& weights) {
  const AttentionParams& params = weights.params();
  const LinearParams* const layers[] = {&params.q, &params.k, &params.v};
  const int64_t C = weights.sizes().d_out;
  const bool packed = Packed(state);
  std::vector<T> elements;
  if (packed) elements = state.Read<T>(kPackedWeight);
  for (int i = 0; i < 3; ++i) {
    if (!packed) elements = state.Read<T>(kWeights[i]);
    FillTransposed(elements.data() + (packed ? i * C * C : 0), layers[i]->weight);
  }
  FillTransposed(state.Read<T>(kOutWeight).data(), params.out.weight);
  if (!weights.sizes().bias) return;
  const std::vector<T> in_bias = state.Read<T>(kPackedBias), out_bias = state.Read<T>(kOutBias);
  for (int i = 0; i < 3; ++i) {
    std::copy_n(in_bias.data() + i * C, C, layers[i]->bias.template data<T>());
  }
  std::copy(out_bias.begin(), out_bias.end(), params.out.bias.template data<T>());
}

}  // namespace

AttentionWeights LoadTorchAttention(const std::filesystem::path& file, const std::string& prefix,
                                    int64_t H, Dtype dtype) {
  TorchState state(file, prefix);
  AttentionWeights weights(CheckedSizes(state, H), dtype);
  if (dtype == Dtype::kF64) {
    CopyState<double>(state, weights);
  } else {
    CopyState<float>(state, weights);
  }
  return weights;
}

}  // namespace folio
