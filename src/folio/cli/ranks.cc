#include "folio/cli/ranks.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "folio/base/log.h"
#include "folio/base/thread_pool.h"
#include "folio/cli/error_report.h"
#include "folio/cli/version.h"
#include "folio/dist/join.h"
#include "folio/term/signals.h"

namespace folio {

Group& JoinRanks(Console& console) {
  // Who ends a run from outside, as mpirun does where a rank has died, may leave no time for more
  // than to say where it stands.
  GroupOptions options = {
      .on_lost = [&console](const Error& error) { ReportError(console, error); },
      .on_beat =
          [&console, told = false](const std::string& standing) mutable {
            if (told || standing.empty() || StopRequested() == 0 || RankByEnvironment() != 0) {
              return;
            }
            told = true;
            console.Note(fmt::format("asked to stop (signal {}) {}", StopRequested(), standing));
          }};
  Group& group = JoinGroup(Version() + " (" + Compiler() + ")", std::move(options));
  if (!group.alone()) SetThreads(ThreadsOfRank(group));
  if (!group.first()) SetLogSink([](LogLevel, std::string_view) {});
  return group;
}

}  // namespace folio
