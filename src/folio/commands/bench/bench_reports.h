#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/bench/operations.h"
#include "folio/bench/step_model.h"
#include "folio/bench/tokenizer_speed.h"
#include "folio/bench/training.h"
#include "folio/report/report.h"

namespace folio {

// Reports of what the room bench has measured. REQUIRES: some rates, or rows.

Report MatmulReport(const Backend& backend, const std::vector<Dtype>& dtypes,
                    const std::vector<MatmulRate>& rates);
Report AttentionReport(const Backend& backend, const std::vector<AttentionRate>& rates);
Report RowReport(const Backend& backend, const RowShape& shape, const std::vector<RowRate>& rates);
Report OptimizerReport(const Backend& backend, int64_t parameters, const OptimizerRates& rates);
// `model` is its name; load_seconds is 0 for one that was not read from a file.
Report GenerationReport(const std::string& model, const Backend& backend, const std::string& dtype,
                        double load_seconds, const GenerationTimings& timings);
// `model` is its name. With `growth` the results are those of several batch sizes, and a table has
// the growth of the cost from the first to the others; without it there is one.
Report TrainingReport(const std::string& model, const Backend& backend,
                      const std::vector<BenchTrainOptions>& options,
                      const std::vector<BenchTrainResult>& results, bool growth);
Report TokenizerReport(const BenchTokenizerOptions& options,
                       const std::vector<TokenizerTiming>& timings);
// With a text that says what the columns mean.
Report StepsReport(const StepPlan& plan);

}  // namespace folio
