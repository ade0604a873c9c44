#pragma once

#include <array>
#include <string_view>

#include "folio/model/context.h"
#include "folio/model/layers/declaration.h"

namespace folio {

// LayerNorm (J. L. Ba, J. R. Kiros, G. E. Hinton, arXiv:1607.06450) or RMSNorm (B. Zhang, R.
// Sennrich, arXiv:1910.07467), as the configuration says.

struct NormParams {
  Tensor weight, bias;  // (C), (C); empty where the configuration has none
};

struct NormActivations {
  Tensor out, mean, rstd;  // (N,C), (N) unless RMSNorm, (N)
};

// The factors of a norm start at one; as 1 + weight, the weights start at zero.
inline InitKind NormInit(const GptConfig& config) {
  return config.norm_offset() == 1 ? InitKind::kZero : InitKind::kOne;
}

template <class Visit, class Params>
void VisitNormParams(const ParamList<Visit>& list, std::string_view module, Params& params) {
  using enum ParamKind;
  const GptConfig& config = list.config;
  const Shape shape = {config.n_embd};
  if (config.norm_weight()) {
    list.Add(module, "weight", params.weight, shape, kElementwise, NormInit(config));
  }
  if (!config.has_layer_norm_bias()) return;
  list.Add(module, "bias", params.bias, shape, kElementwise, InitKind::kZero);
}

// The statistics of a norm: `names` are those of mean and rstd.
template <class Visit>
void VisitNormStatistics(const BufferList<Visit>& list,
                         const std::array<std::string_view, 2>& names, NormActivations& acts) {
  const Shape rows = {list.pass.N()};
  if (list.pass.config.layer_norm()) list.Add(names[0], acts.mean, list.number(), rows);
  list.Add(names[1], acts.rstd, list.number(), rows);
}

// `names` are those of the result, which is in `dtype`, of mean and of rstd.
template <class Visit>
void VisitNormBuffers(const BufferList<Visit>& list, const std::array<std::string_view, 3>& names,
                      NormActivations& acts, Dtype dtype, Beyond beyond = Beyond::kNothing) {
  list.Add(names[0], acts.out, dtype, {list.pass.N(), list.pass.config.n_embd}, beyond);
  VisitNormStatistics(list, {names[1], names[2]}, acts);
}

// The parameters and the buffers of a norm.
struct NormStep {
  const NormParams& params;
  const NormActivations& acts;
};

// x is (N,C).
void NormForward(const PassContext& pass, const NormParams& params, const Tensor& x,
                 const NormActivations& acts);

// Runs `residual`, and the norm of its result: as one operation where pass.residual_norm says so.
void ResidualNormForward(const PassContext& pass, const ResidualForward& residual,
                         const NormStep& norm);

// d_x gets the gradient of x, added to what is there if accumulate; it may be d_out itself if that
// is not BF16. So does, rounded, d_x_low, unless it is empty; it may be d_out.
void NormBackward(const PassContext& pass, const NormParams& params, const Tensor& x,
                  const NormActivations& acts, const Tensor& d_out, const NormParams& d_params,
                  const Tensor& d_x, bool accumulate, const Tensor& d_x_low = {});

}  // namespace folio
