#include "folio/run/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/plot/curves.h"
#include "folio/plot/lines.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr std::array kParts = {kRunConfigFile, kRunDataDir,     kRunSourceFile, kRunTokenizerDir,
                               kMetricsFile,   kSamplesFile,    kLastDir,       kLossFigureFile,
                               kBestDir,       kTensorBoardDir, kBaseDir};

bool HoldsRun(const fs::path& run) {
  return std::ranges::any_of(kParts, [&](const char* part) { return fs::exists(run / part); });
}

// Moves what a run consists of to another directory; what cannot be moved stays.
void MoveParts(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  for (const char* part : kParts) fs::rename(from / part, to / part, ignored);
}

void RemoveParts(const fs::path& run) {
  std::error_code ignored;
  for (const char* part : kParts) fs::remove_all(run / part, ignored);
}

}  // namespace

NewRun::NewRun(fs::path run, bool overwrite) : run_(std::move(run)) {
  if (fs::exists(run_) && !fs::is_directory(run_)) {
    throw UsageError(fmt::format("'{}' is not a directory", run_.string()), "",
                     "give --out the name of a directory");
  }
  if (HoldsRun(run_)) {
    if (!overwrite) {
      const bool resumable = fs::exists(run_ / kLastDir);
      throw UsageError(
          fmt::format("'{}' already holds a run", run_.string()),
          resumable ? "" : "it ended before its first checkpoint",
          resumable ? fmt::format("go on with it: folio train --resume --out {}; or choose another "
                                  "--out, or replace it with --overwrite",
                                  run_.string())
                    : "replace it with --overwrite, or choose another --out");
    }
    replaced_ = run_ / ".replaced";
    CreateDirectories(replaced_);
    MoveParts(run_, replaced_);
    if (HoldsRun(run_)) {
      MoveParts(replaced_, run_);
      throw RuntimeError(fmt::format("cannot replace the run in '{}'", run_.string()),
                         "its files cannot be moved", "choose another --out");
    }
  }
  made_ = !fs::exists(run_);
  CreateDirectories(run_);
}

void NewRun::Begun() {
  begun_ = true;
  std::error_code ignored;
  if (!replaced_.empty()) fs::remove_all(replaced_, ignored);
}

NewRun::~NewRun() {
  if (begun_) return;
  RemoveParts(run_);
  std::error_code ignored;
  if (!replaced_.empty()) {
    MoveParts(replaced_, run_);
    fs::remove(replaced_, ignored);
  }
  if (made_) fs::remove(run_, ignored);
}

void DrawLossFigure(const fs::path& run) {
  Series loss{.label = "training batch", .faint = true, .colour = 0};
  Series smooth{.label = "training, smoothed", .colour = 0};
  Series train{.label = "training set", .colour = 1}, val{.label = "held out", .colour = 2};
  constexpr double kWeight = 0.9;
  for (const StepMetrics& m : ReadRunLog(run)) {
    const double step = static_cast<double>(m.step);
    const auto add = [&](Series& series, double value) {
      series.x.push_back(step);
      series.y.push_back(value);
    };
    if (m.loss) add(loss, *m.loss);
    if (m.train_eval_loss) add(train, *m.train_eval_loss);
    if (m.val_loss) add(val, *m.val_loss);
  }
  smooth.x = loss.x;
  smooth.y = Smooth(loss.y, kWeight);
  const std::array series = {loss, smooth, train, val};
  WriteFileAtomically(run / kLossFigureFile,
                      CurvesSvg(series, {.title = "Loss of " + run.filename().string(),
                                         .x_label = "step",
                                         .y_label = "nats per token"}));
}

}  // namespace folio
