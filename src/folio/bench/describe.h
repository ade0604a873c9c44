#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/bench/generation.h"
#include "folio/bench/operations.h"
#include "folio/bench/tokenizer_speed.h"
#include "folio/bench/training.h"

namespace folio {

// The findings of the benchmarks: tables for people, or one JSON object (`json`). Nothing may be
// empty.

std::string DescribeMatmuls(const Backend& backend, const std::vector<Dtype>& dtypes,
                            const std::vector<MatmulRate>& rates, bool json);
std::string DescribeAttention(const Backend& backend, const std::vector<AttentionRate>& rates,
                              bool json);
std::string DescribeOptimizer(const Backend& backend, int64_t parameters,
                              const OptimizerRates& rates, bool json);
// `model` is its name; load_seconds is 0 for one that was not read from a file.
std::string DescribeGeneration(const std::string& model, const Backend& backend,
                               const std::string& dtype, double load_seconds,
                               const GenerationTimings& timings, bool json);
// `model` is its name. With `growth` the results are those of several batch sizes, and how the cost
// grows from the first to the others is told too; without it there is one.
std::string DescribeTraining(const std::string& model, const Backend& backend,
                             const std::vector<BenchTrainOptions>& options,
                             const std::vector<BenchTrainResult>& results, bool growth, bool json);
std::string DescribeTokenizerSpeed(const BenchTokenizerOptions& options,
                                   const std::vector<TokenizerTiming>& timings, bool json);

}  // namespace folio
