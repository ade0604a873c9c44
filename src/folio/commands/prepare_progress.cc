#include "folio/commands/prepare_progress.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "folio/base/clock.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"

namespace folio {

DatasetInfo PrepareWithProgress(const PrepareOptions& options, Console& console,
                                ProgressMode mode) {
  Progress progress(console, mode);
  RateMeter rate(/*warm_up=*/0);
  double last_seconds = SteadySeconds();
  int64_t last_done = 0;
  PrepareHooks hooks;
  hooks.note = [&](const std::string& text) { console.Note(text); };
  hooks.progress = [&](int64_t done, int64_t total) {
    ThrowIfStopRequested();
    const double now = SteadySeconds();
    rate.Add(static_cast<double>(done - last_done), now - last_seconds);
    last_seconds = now;
    last_done = done;
    if (!progress.Due()) return;
    progress.Show({"bytes",
                   done,
                   total,
                   {{"bytes_per_second", fmt::format("{:.0f}", rate.rate()),
                     fmt::format("{}/s", HumanBytes(rate.rate()))},
                    rate.EtaField(static_cast<double>(total - done))}});
  };
  hooks.converting = [&](const std::string& path, int64_t bytes) {
    ThrowIfStopRequested();
    if (!progress.Due()) return;
    progress.Show({"unpacked_bytes", bytes, 0, {{"file", path, path}}});
  };
  hooks.going_on = [&](int64_t done) { last_done = done; };
  return PrepareDataset(options, hooks);
}

}  // namespace folio
