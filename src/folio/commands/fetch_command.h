#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/corpus/fetch_published.h"
#include "folio/term/console.h"

namespace folio {

// Shows on the console how far a download is, with a progress line for each file.
class FetchProgress {
 public:
  explicit FetchProgress(const Context& context) : context_(context) {}

  // The hooks for FetchSet and FetchText, which this must outlive. A request to stop
  // (base/signals.h) throws Stopped.
  FetchHooks Hooks();

 private:
  const Context& context_;
  std::string file_;
  std::optional<Progress> progress_;  // of file_
};

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
