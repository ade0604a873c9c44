#pragma once

#include <string>
#include <vector>

#include "folio/base/error.h"
#include "folio/cli/command_line.h"
#include "folio/corpus/fetch_published.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"

namespace folio {

// A command that fetches things published under names.
class FetchPublishedCommand : public Command {
 public:
  void AddFlags(Flags& flags) override {
    const std::string many(kind_.many);
    flags.Positionals("NAME", &names_, many + " to fetch", {.suggestions = kind_.names});
    flags.Switch("--list", &list_, "show the " + many + ", and which of them are downloaded");
    flags.Value(Field{"from", &from_, "take the files from this directory instead of the network"},
                {.placeholder = "DIR"});
  }

  int Run(const Context& context) override {
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
      FetchSet(kind_, set, from_, context.console, context.progress_mode);
      if (context.console.json()) {
        const Json json = {{"schema", 1}, {"name", set.name}, {"dir", set.dir.string()}};
        context.console.Result(json.dump() + "\n");
      } else if (!next_.empty()) {
        context.console.Note("next: " + next_ + " " + std::string(set.name));
      }
    }
    return 0;
  }

 protected:
  // A note suggests the command `next` followed by the name of what was fetched; "" for none.
  explicit FetchPublishedCommand(const PublishedKind& kind, std::string next = "")
      : kind_(kind), next_(std::move(next)) {}

 private:
  const PublishedKind& kind_;
  std::string next_;
  std::vector<std::string> names_;
  std::string from_;
  bool list_ = false;
};

}  // namespace folio
