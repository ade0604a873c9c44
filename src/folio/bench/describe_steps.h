#pragma once

#include <string>
#include <vector>

#include "folio/bench/step_model.h"

namespace folio {

// Predictions for one model on several numbers of ranks and networks.
struct StepPlan {
  struct Row {
    int ranks = 1;
    int64_t grad_accumulation = 1;  // of all ranks
    NetworkRates network = {};
    StepPrediction step = {};
  };

  std::string model = {};  // its name
  GptConfig config = {};
  int64_t B = 1, T = 1;
  PassOptions pass = {};
  int64_t reduce_every = 1;
  Dtype reduce = Dtype::kF32;
  RankRates rank = {};
  std::string rates_from = {};  // "measured here, 8 threads"
  std::vector<Row> rows = {};
};

// "10Gbit", "2.5Gbit/s", "800Mbit" in bits a second; "20us", "1.5ms", "0" in seconds. Throw a
// kUsage Error that names `flag` for anything else.
double ParseBitsPerSecond(const std::string& text, const std::string& flag);
double ParseShortTime(const std::string& text, const std::string& flag);

std::string HumanBits(double bits_per_second);  // "10 Gbit/s"

// A table for people, with what its columns mean, or one JSON object. REQUIRES: rows.
std::string DescribeSteps(const StepPlan& plan, bool json);

}  // namespace folio
