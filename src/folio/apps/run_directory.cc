#include "folio/apps/run_directory.h"

#include <fmt/format.h>

#include <array>
#include <system_error>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/model/checkpoint.h"
#include "folio/plot/curves.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::array kParts = {kRunConfigFile, kRunDataDir, kRunSourceFile,  kMetricsFile,
                               kSamplesFile,   kLastDir,    kLossFigureFile, kBestDir};

bool HoldsModel(const fs::path& dir) {
  return fs::exists(dir / kConfigFile) && fs::exists(dir / kWeightsFile);
}

}  // namespace

bool HoldsRun(const fs::path& run) {
  for (const char* part : kParts) {
    if (fs::exists(run / part)) return true;
  }
  return false;
}

void BeginRun(const fs::path& run, bool overwrite) {
  if (fs::exists(run) && !fs::is_directory(run)) {
    throw UsageError(fmt::format("'{}' is not a directory", run.string()), "",
                     "give --out the name of a directory");
  }
  if (HoldsRun(run)) {
    if (!overwrite) {
      throw UsageError(
          fmt::format("'{}' already holds a run", run.string()), "",
          fmt::format("go on with it: folio train --resume --out {}; or choose another "
                      "--out, or replace it with --overwrite",
                      run.string()));
    }
    for (const char* part : kParts) {
      std::error_code error;
      fs::remove_all(run / part, error);
      if (error) {
        throw RuntimeError(fmt::format("cannot remove '{}'", (run / part).string()),
                           error.message());
      }
    }
  }
  CreateDirectories(run);
}

fs::path FindModelDir(const fs::path& dir) {
  if (!HoldsModel(dir)) {
    for (const char* checkpoint : {kBestDir, kLastDir}) {
      if (HoldsModel(dir / checkpoint)) return dir / checkpoint;
    }
  }
  return dir;  // if it holds none, loading it says what is missing
}

void DrawLossFigure(const fs::path& run) {
  Series loss{.label = "training batch", .faint = true}, smooth{.label = "training, smoothed"};
  Series train{.label = "training set"}, val{.label = "held out"};
  constexpr double kMemory = 0.9;
  double mean = 0, weight = 0;
  for (const StepMetrics& m : ReadRunLog(run)) {
    const double step = static_cast<double>(m.step);
    const auto add = [&](Series& series, double value) {
      series.x.push_back(step);
      series.y.push_back(value);
    };
    if (m.loss) {
      mean = kMemory * mean + (1 - kMemory) * *m.loss;
      weight = kMemory * weight + (1 - kMemory);
      add(loss, *m.loss);
      add(smooth, mean / weight);
    }
    if (m.train_eval_loss) add(train, *m.train_eval_loss);
    if (m.val_loss) add(val, *m.val_loss);
  }
  const std::array series = {loss, smooth, train, val};
  WriteFileAtomically(run / kLossFigureFile,
                      CurvesSvg(series, {.title = "Loss of " + run.filename().string(),
                                         .x_label = "step",
                                         .y_label = "nats per token"}));
}

}  // namespace folio
