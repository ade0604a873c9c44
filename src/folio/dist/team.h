#pragma once

#include <cstdint>
#include <vector>

#include "folio/base/check.h"
#include "folio/dist/exchange.h"
#include "folio/dist/group.h"

namespace folio {

// Ranks of a group that exchange something among themselves, while the others do so in teams of
// their own.
class Team {
 public:
  // One rank alone.
  Team() = default;
  // The members, of whom this rank is one. The group must outlive it.
  Team(Group& group, const Members& members) : group_(&group), members_(members) {
    const int distance = group.rank() - members.first;
    rank_ = distance / members.stride;
    FOLIO_CHECK(distance >= 0 && distance % members.stride == 0 && rank_ < members.size &&
                    members.RankOf(members.size - 1) < group.size(),
                "no member of the team");
  }

  // This rank's number in the team, and how many they are.
  int rank() const { return rank_; }
  int size() const { return members_.size; }
  bool alone() const { return members_.size == 1; }

  // As Group's, with numbers of the team.
  uint64_t Begin(Exchange& exchange) const {
    if (group_ != nullptr) return group_->Begin(exchange, members_);
    exchange.Prepare(0);
    exchange.Finish(0);
    return 0;
  }
  void Do(Exchange& exchange) const {
    if (group_ != nullptr) return group_->Do(exchange, members_);
    exchange.Prepare(0);
    exchange.Finish(0);
  }
  void Wait(uint64_t ticket) const {
    if (group_ != nullptr) group_->Wait(ticket);
  }

  // What each member says, by its number in the team; all ranks of the group must ask.
  template <class Number>
  std::vector<std::vector<Number>> GatherNumbers(const std::vector<Number>& mine) const {
    if (group_ == nullptr) return {mine};
    std::vector<std::vector<Number>> all = folio::GatherNumbers(*group_, mine), members;
    for (int i = 0; i < size(); ++i) {
      members.push_back(std::move(all[static_cast<size_t>(members_.RankOf(i))]));
    }
    return members;
  }

 private:
  Group* group_ = nullptr;
  Members members_;
  int rank_ = 0;
};

// The ranks of a group, of which `tensor` in a row share the layers of a model: rank r has part r %
// tensor of it, and the (r / tensor)-th share of the data.
inline Team TensorTeamOf(Group* group, int tensor) {
  if (group == nullptr) return {};
  return {*group, {.first = group->rank() / tensor * tensor, .stride = 1, .size = tensor}};
}
inline Team DataTeamOf(Group* group, int tensor) {
  if (group == nullptr) return {};
  return {*group,
          {.first = group->rank() % tensor, .stride = tensor, .size = group->size() / tensor}};
}

}  // namespace folio
