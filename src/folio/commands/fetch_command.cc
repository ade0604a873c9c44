#include "folio/commands/fetch_command.h"

#include <cstdint>
#include <memory>
#include <optional>

#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/term/console.h"
#include "folio/term/terminal_text.h"

namespace folio {
namespace {

// All sets of a kind, and which of them are here: a table, or one JSON object (`json`).
std::string DescribePublished(const PublishedKind& kind, bool json) {
  Json all = {{"schema", 1}};
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : kind.names) {
    const PublishedSet set = PublishedNamed(kind, name);
    const bool here = IsHere(kind, set);
    int64_t bytes = 0;
    for (const SetFile& file : set.files) bytes += file.bytes;
    Json one = {{"name", name}};
    one.update(set.more);
    one.update({{"dir", set.dir.string()}, {"here", here}});
    all[kind.many].push_back(std::move(one));
    rows.push_back({name, here ? "here" : "-", HumanBytes(bytes), set.summary});
  }
  return json ? all.dump() + "\n"
              : RenderTable({"name", "files", ">size", std::string(kind.contents)}, rows);
}

}  // namespace

FetchHooks ShowFetching(const Context& context) {
  struct Shown {
    std::string file;
    std::optional<Progress> progress;  // of the file
  };
  const auto shown = std::make_shared<Shown>();
  return {.note =
              [&context, shown](const std::string& text) {
                shown->progress.reset();
                context.console.Note(text);
              },
          .progress =
              [&context, shown](const std::string& file, int64_t done, int64_t total) {
                ThrowIfStopRequested();
                if (!shown->progress || file != shown->file) {
                  shown->progress.emplace(context.console, context.progress_mode);
                  shown->file = file;
                }
                shown->progress->Show({"bytes", done, total, {{"file", file, file}}});
              }};
}

void FetchPublishedCommand::AddFlags(Flags& flags) {
  const std::string many(kind_.many);
  flags.Positionals("NAME", &names_, many + " to fetch", {.suggestions = kind_.names});
  flags.Switch("--list", &list_, "show the " + many + ", and which of them are downloaded");
  flags.Value(Field{"from", &from_, "take the files from this directory instead of the network"},
              {.placeholder = "DIR"});
}

int FetchPublishedCommand::Run(const Context& context) {
  const std::string command(kind_.command);
  if (list_) {
    context.console.Result(DescribePublished(kind_, context.console.json()));
    return 0;
  }
  if (names_.empty()) {
    throw UsageError(command + " needs NAME", std::string(kind_.many) + " to fetch",
                     command + " --list shows them");
  }
  CatchSignals();
  std::vector<PublishedSet> sets;
  for (const std::string& name : names_) sets.push_back(PublishedNamed(kind_, name));
  if (!from_.empty()) RequireDirectory(from_);
  for (const PublishedSet& set : sets) {
    FetchSet(kind_, set, from_, ShowFetching(context));
    if (context.console.json()) {
      context.console.Result(
          Json{{"schema", 1}, {"name", set.name}, {"dir", set.dir.string()}}.dump() + "\n");
    } else if (!next_.empty()) {
      context.console.Note("next: " + next_ + " " + std::string(set.name));
    }
  }
  return 0;
}

}  // namespace folio
