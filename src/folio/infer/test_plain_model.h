#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "folio/model/context.h"
#include "folio/model/params.h"
#include "folio/model/transformer.h"

// A GPT as its definition reads, in double and without the backends, for the tests of what a trace
// shows.

namespace folio {

class PlainModel {
 public:
  using Matrix = std::vector<double>;  // T rows

  PlainModel(const GptWeights& weights, std::span<const int32_t> ids)
      : config_(weights.config()), T_(ids.size()), C_(static_cast<size_t>(config_.n_embd)) {
    const GptParams& params = weights.params();
    Matrix x = Embed(params, ids);
    Keep(TracePoint::kEmbedded, 0, x);
    for (size_t l = 0; l < params.h.size(); ++l) x = Block(params.h[l], static_cast<int64_t>(l), x);
    Keep(TracePoint::kFinal, 0, Norm(params.ln_f, x));
    const Tensor& head = params.lm_head_weight ? params.lm_head_weight : params.wte;
    const size_t V = static_cast<size_t>(config_.vocab_size);
    logits_.assign(T_ * V, 0);
    for (size_t i = 0; i < T_ * V; ++i) {
      if (params.lm_head_bias) logits_[i] = params.lm_head_bias.data<float>()[i % V];
      for (size_t c = 0; c < C_; ++c) {
        logits_[i] +=
            At(TracePoint::kFinal, 0)[i / V * C_ + c] * head.data<float>()[i % V * C_ + c];
      }
    }
  }

  const Matrix& At(TracePoint point, int64_t layer) const { return kept_.at({point, layer}); }
  const Matrix& logits() const { return logits_; }  // (T,V)
  // (H,T,T) of each layer: scores before the mask, weights.
  const Matrix& Scores(int64_t layer) const { return scores_[static_cast<size_t>(layer)]; }
  const Matrix& Weights(int64_t layer) const { return weights_[static_cast<size_t>(layer)]; }

 private:
  const Matrix& Keep(TracePoint point, int64_t layer, Matrix x) {
    return kept_[{point, layer}] = std::move(x);
  }

  Matrix Embed(const GptParams& params, std::span<const int32_t> ids) const {
    Matrix x(T_ * C_);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t t = i / C_, c = i % C_;
      const double angle =
          static_cast<double>(t) / std::pow(10000.0, static_cast<double>(c / 2 * 2) / double(C_));
      const double position = params.wpe   ? params.wpe.data<float>()[i]
                              : c % 2 == 0 ? std::sin(angle)
                                           : std::cos(angle);
      x[i] = params.wte.data<float>()[static_cast<size_t>(ids[t]) * C_ + c] + position;
    }
    return x;
  }

  Matrix Norm(const NormParams& norm, const Matrix& x) const {
    Matrix out(x.size());
    for (size_t t = 0; t < T_; ++t) {
      double mean = 0, variance = 0;
      for (size_t c = 0; c < C_; ++c) mean += x[t * C_ + c] / double(C_);
      for (size_t c = 0; c < C_; ++c) variance += std::pow(x[t * C_ + c] - mean, 2) / double(C_);
      for (size_t c = 0; c < C_; ++c) {
        out[t * C_ + c] = (x[t * C_ + c] - mean) /
                              std::sqrt(variance + config_.layer_norm_epsilon) *
                              norm.weight.data<float>()[c] +
                          (norm.bias ? norm.bias.data<float>()[c] : 0);
      }
    }
    return out;
  }

  Matrix Linear(const LinearParams& linear, const Matrix& x) const {
    const size_t in = static_cast<size_t>(linear.weight.dim(0));
    const size_t out_width = static_cast<size_t>(linear.weight.dim(1));
    Matrix out(T_ * out_width);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t t = i / out_width, o = i % out_width;
      out[i] = linear.bias ? linear.bias.data<float>()[o] : 0;
      for (size_t c = 0; c < in; ++c) {
        out[i] += x[t * in + c] * linear.weight.data<float>()[c * out_width + o];
      }
    }
    return out;
  }

  Matrix Heads(int64_t layer, const Matrix& qkv) {
    const size_t H = static_cast<size_t>(config_.n_head), D = C_ / H;
    const double scale = (config_.scale_attn_weights ? 1 / std::sqrt(double(D)) : 1) /
                         (config_.scale_attn_by_inverse_layer_idx ? double(layer + 1) : 1);
    Matrix scores(H * T_ * T_), weights(H * T_ * T_), out(T_ * C_);
    for (size_t i = 0; i < H * T_; ++i) {
      const size_t h = i / T_, t = i % T_;
      double sum = 0;
      for (size_t s = 0; s < T_; ++s) {
        double& score = scores[i * T_ + s];
        for (size_t d = h * D; d < (h + 1) * D; ++d) {
          score += qkv[t * 3 * C_ + d] * qkv[s * 3 * C_ + C_ + d] * scale;
        }
        if (s <= t) sum += weights[i * T_ + s] = std::exp(score);
      }
      for (size_t s = 0; s <= t; ++s) {
        const double weight = weights[i * T_ + s] /= sum;
        for (size_t d = h * D; d < (h + 1) * D; ++d) {
          out[t * C_ + d] += weight * qkv[s * 3 * C_ + 2 * C_ + d];
        }
      }
    }
    scores_.push_back(std::move(scores));
    weights_.push_back(std::move(weights));
    return out;
  }

  Matrix Activate(Matrix x) const {
    for (double& v : x) {
      switch (config_.activation_function) {
        case Activation::kGeluNew:
          v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
          break;
        case Activation::kGelu:
          v = 0.5 * v * (1 + std::erf(v / std::sqrt(2)));
          break;
        case Activation::kRelu:
          v = std::max(v, 0.0);
          break;
        case Activation::kSilu:
          v /= 1 + std::exp(-v);
          break;
        case Activation::kQuickGelu:
          v /= 1 + std::exp(-1.702 * v);
          break;
        case Activation::kTanh:
          v = std::tanh(v);
          break;
        case Activation::kRelu2:
          v = v > 0 ? v * v : 0;
      }
    }
    return x;
  }

  static Matrix Sum(const Matrix& a, const Matrix& b) {
    Matrix out = a;
    for (size_t i = 0; i < out.size(); ++i) out[i] += b[i];
    return out;
  }

  Matrix Block(const BlockParams& p, int64_t l, const Matrix& x) {
    using enum TracePoint;
    const bool pre = config_.sublayer_layout().pre_norm;
    const Matrix& qkv =
        Keep(kQkv, l, Linear(p.attn.c_attn, pre ? Keep(kNorm1, l, Norm(p.ln_1, x)) : x));
    const Matrix& attention =
        Keep(kAttention, l, Linear(p.attn.c_proj, Keep(kHeads, l, Heads(l, qkv))));
    const Matrix& middle = Keep(kMiddle, l, Sum(x, attention));
    const Matrix& normed =
        pre ? Keep(kNorm2, l, Norm(p.ln_2, middle)) : Keep(kNorm1, l, Norm(p.ln_1, middle));
    const Matrix& activated =
        Keep(kActivated, l, Activate(Keep(kUp, l, Linear(p.mlp.c_fc, normed))));
    const Matrix& mlp = Keep(kMlp, l, Linear(p.mlp.c_proj, activated));
    if (pre) return Keep(kOutput, l, Sum(middle, mlp));
    return Keep(kOutput, l, Keep(kNorm2, l, Norm(p.ln_2, Sum(normed, mlp))));
  }

  GptConfig config_;
  size_t T_, C_;
  std::map<std::pair<TracePoint, int64_t>, Matrix> kept_;
  std::vector<Matrix> scores_, weights_;
  Matrix logits_;
};

}  // namespace folio
