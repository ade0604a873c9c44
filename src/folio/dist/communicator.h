#pragma once

#include <cstdint>
#include <vector>

#include "folio/base/check.h"
#include "folio/dist/group.h"

namespace folio {

// Ranks of a group that exchange something among themselves, while the others do so in teams of
// their own.
class Communicator {
 public:
  // Makes the communicator of one rank alone.
  Communicator() = default;
  // The members, of whom this rank is one. The group must outlive it.
  Communicator(Group& group, const Members& members) : group_(&group), members_(members) {
    const int distance = group.rank() - members.first;
    rank_ = distance / members.stride;
    FOLIO_CHECK(distance >= 0 && distance % members.stride == 0 && rank_ < members.size &&
                    members.RankOf(members.size - 1) < group.size(),
                "no member of the communicator");
  }

  // This rank's number in the communicator, and how many they are.
  int rank() const { return rank_; }
  int size() const { return members_.size; }
  bool alone() const { return members_.size == 1; }

  // Begins, makes and waits for an all-to-all as a Group does, with numbers of the communicator.
  uint64_t Begin(AllToAll& all_to_all) const { return group_->Begin(all_to_all, members_); }
  void Do(AllToAll& all_to_all) const { group_->Do(all_to_all, members_); }
  void Wait(uint64_t ticket) const { group_->Wait(ticket); }

  // The numbers of each member, by its number in the communicator; all ranks of the group must ask.
  template <class Number>
  std::vector<std::vector<Number>> GatherNumbers(const std::vector<Number>& mine) const {
    std::vector<std::vector<Number>> all = folio::GatherNumbers(*group_, mine), members;
    for (int i = 0; i < size(); ++i) {
      members.push_back(std::move(all[static_cast<size_t>(members_.RankOf(i))]));
    }
    return members;
  }

 private:
  static Group& Alone() {
    static Group alone;
    return alone;
  }

  Group* group_ = &Alone();
  Members members_;
  int rank_ = 0;
};

// The ranks of a group, of which `tensor` in a row share the layers of a model: rank r has part r %
// tensor of it, and the (r / tensor)-th share of the data.
inline Communicator TensorCommunicator(Group* group, int tensor) {
  if (group == nullptr) return {};
  return {*group, {.first = group->rank() / tensor * tensor, .stride = 1, .size = tensor}};
}
inline Communicator DataCommunicator(Group* group, int tensor) {
  if (group == nullptr) return {};
  return {*group,
          {.first = group->rank() % tensor, .stride = tensor, .size = group->size() / tensor}};
}

}  // namespace folio
