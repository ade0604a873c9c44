#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/bench/operations.h"
#include "folio/model/params.h"
#include "folio/report/report.h"

namespace folio {

struct BenchGenerateOptions {
  int64_t prompt_tokens = 512;  // of the prompt that is timed, at most n_positions
  // Tokens before those that are timed, each below n_positions.
  std::vector<int64_t> positions = {10};
  std::vector<int64_t> batches = {};  // sequences that are written together, each 1 to 32
  std::optional<Dtype> cache = {};    // of keys and values
  double seconds = 2;                 // measure at least so long
};

// Single tokens behind `position` others.
struct TokenTiming {
  int64_t position = 0;
  double bytes = 0;                  // that one reads: matrices, and keys and values so far
  std::vector<double> seconds = {};  // of each token

  double bytes_per_second() const;  // at the median
};

// A step of so many sequences, a token each, behind ten others.
struct BatchTiming {
  int64_t sequences = 0;
  std::vector<double> seconds = {};  // of each step

  double tokens_per_second() const;  // at the median
};

struct GenerationTimings {
  Dtype cache = Dtype::kF32;
  int64_t prompt_tokens = 0;
  std::vector<double> prompt_seconds = {};
  std::vector<TokenTiming> tokens = {};
  std::vector<BatchTiming> batches = {};
  double weight_bytes = 0;  // of the matrices that a token reads
  MemoryPass read = {};     // reading so many bytes, in turns with the rest
};

// Times what a model does with tokens as they come: at least three rounds.
GenerationTimings MeasureGeneration(Backend& backend, const GptWeights& weights,
                                    const BenchGenerateOptions& options);

// The timings as a report. `model` is its name; load_seconds is 0 for one that was not read from a
// file.
Report GenerationReport(const std::string& model, const Backend& backend, const std::string& dtype,
                        double load_seconds, const GenerationTimings& timings);

}  // namespace folio
