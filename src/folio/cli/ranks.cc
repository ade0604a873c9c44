#include "folio/cli/ranks.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "folio/base/log.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"
#include "folio/cli/error_report.h"
#include "folio/cli/version.h"
#include "folio/dist/group.h"
#include "folio/dist/join.h"
#include "folio/term/signals.h"

namespace folio {

Group& JoinRanks(Console& console, const std::string& command) {
  // Who ends a run from outside, as mpirun does where a rank has died, may leave no time for more
  // than to say where it stands.
  GroupOptions options = {
      .on_lost = [&console](const Error& error) { ReportError(console, error); },
      .on_heartbeat =
          [&console, told = false](const std::string& progress) mutable {
            if (told || progress.empty() || StopRequested() == 0 || RankByEnvironment() != 0) {
              return;
            }
            told = true;
            console.Note(fmt::format("asked to stop (signal {}) {}", StopRequested(), progress));
          }};
  Group& group = JoinGroup(Version() + " (" + Compiler() + ")", std::move(options));
  RequireSame(group, "commands", command);
  if (!group.alone()) SetThreads(ThreadsOfRank(group));
  if (!group.first()) SetLogSink([](LogLevel, std::string_view) {});
  return group;
}

void RequireSameSimd(Group& group) {
  RequireSame(
      group, "instruction sets", SimdTarget(),
      "name one that all machines have, on all ranks: --simd NAME (folio doctor lists those "
      "of a machine)");
}

}  // namespace folio
