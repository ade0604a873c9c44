#pragma once

#include <functional>
#include <string>

#include "folio/backend/backend.h"
#include "folio/dist/group.h"
#include "folio/run/run_config.h"
#include "folio/term/progress.h"

namespace folio {

class Workers;

// The ranks of a training run before they train: whatever the first rank finds, makes or chooses
// for all goes through here, and so does what must be the same everywhere. It alone speaks to
// people.
class RunRanks {
 public:
  // A group of null, or of one rank, is one rank alone; a console of null is nowhere.
  RunRanks(Group* group, Console* console)
      : group_(group != nullptr && !group->alone() ? group : nullptr), console_(console) {}

  Group* group() const { return group_; }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }
  // The first rank's console; else null.
  Console* console() const { return first() ? console_ : nullptr; }
  void Note(const std::string& text) const {
    if (console() != nullptr) console()->Note(text);
  }

  // Waits until the first rank has come here, too.
  void WaitForFirst() const { Share(""); }
  // Returns what the first rank says, for all.
  std::string Share(const std::string& mine) const { return Broadcast(group_, mine); }
  bool Agree(bool mine) const { return !Share(mine ? "yes" : "").empty(); }
  // Returns make(workers) of the first rank, for all. The others are its workers meanwhile; one
  // rank alone has null.
  std::string MakeTogether(const std::function<std::string(Workers*)>& make) const;

  // Throws a kUsage Error unless the ranks can share a step, and every setting but how many threads
  // each has is that of the others.
  void RequireSameSettings(RunConfig& config) const;
  // The settings that the first rank chose by measuring become those of all.
  void ShareSettings(RunSettings& settings) const;
  // A line for each rank, what it computes with; "" for one alone. All ranks ask.
  std::string Describe(const RunConfig& config, const Backend& backend, bool json) const;

 private:
  Group* group_;
  Console* console_;
};

}  // namespace folio
