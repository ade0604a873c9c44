#pragma once

#include <string>
#include <utility>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/corpus/fetch_published.h"

namespace folio {

// Returns hooks for FetchSet and FetchText that show on the console how far a download is, with a
// progress line for each file. A request to stop (base/signals.h) throws Stopped. `context` must
// outlive them.
FetchHooks ShowFetching(const Context& context);

// A command that fetches what is published under names.
class FetchPublishedCommand : public Command {
 public:
  void AddFlags(Flags& flags) override;
  int Run(const Context& context) override;

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
