#include "folio/dist/workers.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/dist/group.h"
#include "folio/dist/transport.h"

namespace folio {
namespace {

// The first byte of what goes to a worker, and of what it answers.
constexpr char kShare = 's', kHome = 'h', kAnswer = 'a', kError = 'e';

}  // namespace

Workers::~Workers() {
  if (group_ == nullptr || group_->alone() || !first()) return;
  try {
    if (scattered_) group_->Swap(std::vector<std::string>(static_cast<size_t>(ranks())));
    group_->Swap(std::vector<std::string>(static_cast<size_t>(ranks()), {kHome}));
  } catch (const Error&) {  // a rank is lost, which was told
  }
}

void Workers::Scatter(std::vector<std::string> shares) {
  FOLIO_CHECK(first() && !scattered_ && std::ssize(shares) == ranks(), "shares out of turn");
  if (ranks() == 1) return;
  for (std::string& share : shares) share.insert(share.begin(), kShare);
  group_->Swap(shares);
  scattered_ = true;
}

std::vector<std::string> Workers::Gather() {
  if (ranks() == 1) return {""};
  FOLIO_CHECK(scattered_, "no answer to come");
  scattered_ = false;
  std::vector<std::string> answers =
      group_->Swap(std::vector<std::string>(static_cast<size_t>(ranks())));
  for (std::string& answer : answers) {
    if (answer.empty()) continue;  // of this rank
    if (answer[0] == kError) throw UnpackError(answer.substr(1));
    answer.erase(answer.begin());
  }
  return answers;
}

void Workers::Serve(const Work& work) {
  FOLIO_CHECK(!first(), "the first rank hands the work out");
  std::vector<std::string> mine(static_cast<size_t>(ranks()));
  for (;;) {
    const std::string share = group_->Swap(std::vector<std::string>(mine.size()))[0];
    if (share == std::string{kHome}) return;
    try {
      mine[0] = kAnswer + work(share.substr(1));
      if (mine[0].size() > Transport::kMostBytes) {  // a document of a gigabyte in one line
        throw InputError(fmt::format("{} has an answer of {}", group_->NameOf(group_->rank()),
                                     HumanBytes(static_cast<double>(mine[0].size()))),
                         "ranks tell each other at most 1 GB at a time", "use one rank");
      }
    } catch (const Error& error) {
      mine[0] = kError + PackError(error);
    }
    group_->Swap(mine);
  }
}

}  // namespace folio
