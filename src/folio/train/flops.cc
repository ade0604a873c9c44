#include "folio/train/flops.h"

#include <fmt/format.h>

#include <array>

#include "folio/base/strings.h"
#include "folio/model/head_layout.h"
#include "folio/model/params.h"

namespace folio {

TrainFlops::TrainFlops(const GptConfig& config, int64_t T, const LoraConfig& lora)
    : matrix_parameters(ParamTable(config, lora).matrix_parameters()),
      trained_parameters(ParamTable(config, lora).trained_matrix_parameters()),
      products_per_token(4.0 * static_cast<double>(matrix_parameters) +
                         2.0 * static_cast<double>(trained_parameters)),
      attention_per_token(12.0 * static_cast<double>(config.n_layer) * static_cast<double>(T) *
                          static_cast<double>(config.head_layout().q_width())),
      n_layer_(config.n_layer),
      T_(T),
      q_width_(config.head_layout().q_width()) {}

std::string TrainFlops::Explanation() const {
  const std::string products =
      trained_parameters == matrix_parameters
          ? fmt::format("6 x {} parameters in matrix products", WithCommas(matrix_parameters))
          : fmt::format("4 x {} parameters in matrix products + 2 x {} of adapters",
                        WithCommas(matrix_parameters), WithCommas(trained_parameters));
  return fmt::format(
      "{} a token = {} + 12 x {} layers x {} positions x {} channels of attention, its masked half "
      "too",
      HumanFlops(per_token()), products, n_layer_, T_, q_width_);
}

std::string HumanFlops(double flops) {
  static constexpr std::array kUnits = {"", "K", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && flops >= 999.95; ++unit) flops /= 1000;
  return fmt::format("{:.1f} {}FLOP", flops, kUnits[unit]);
}

}  // namespace folio
