#pragma once

#include <cstdint>
#include <string>

#include "folio/model/config.h"
#include "folio/model/lora.h"

namespace folio {

// The arithmetic of training by the count that is usual in the literature: what the model asks for,
// not what is carried out, so that recomputation and skipped masks do not change it.
struct TrainFlops {
  TrainFlops(const GptConfig& config, int64_t T, const LoraConfig& lora = {});

  int64_t matrix_parameters = 0;   // in matrix products: the head too, no look-ups, biases or norms
  int64_t trained_parameters = 0;  // of these; all, unless the model has adapters
  double products_per_token = 0;   // for each 2 forward, 2 backward, and 2 more if it is trained
  double attention_per_token = 0;  // 12 n_layer T n_embd: scores and sums, the masked half too

  double per_token() const { return products_per_token + attention_per_token; }
  double per_step(int64_t tokens) const { return static_cast<double>(tokens) * per_token(); }
  // The formula with this model's numbers, for people.
  std::string Explanation() const;

 private:
  int64_t n_layer_, T_, q_width_;
};

// Explains flops_per_token, for programs.
inline constexpr char kFlopsFormula[] =
    "flops_per_token = 4 * matrix_parameters + 2 * trained_matrix_parameters + 12 * n_layer * "
    "context * n_embd; without adapters both are the same; matrix_parameters "
    "are the weights of all matrix products, the loss head's among them, without embedding "
    "look-ups, biases and norms; attention is counted in full (the causal half is not taken off)";

std::string HumanFlops(double flops);  // "854.7 MFLOP"

}  // namespace folio
