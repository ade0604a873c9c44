#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {

class Transport;  // ranks/transport.h

// The traffic between the ranks so far, as this one saw it.
struct GroupTraffic {
  uint64_t bytes_sent = 0;
  double seconds = 0;         // in which an all-to-all was under way
  double seconds_waited = 0;  // of these, in which the program had to wait
};

struct GroupOptions {
  double silence_seconds = 10;  // a rank that is silent for so long is lost
  // Told by the group's thread when a rank is lost, once, before Abort. What waits then throws this
  // error, where it gets as far.
  std::function<void(const Error&)> on_lost = {};
  // Called by the group's thread several times a second, whatever the program does; `progress` is
  // what set_progress said.
  std::function<void(const std::string& progress)> on_heartbeat = {};
};

// An all-to-all, the one collective that a Group knows: each rank sends to each of the others and
// receives from it, all at once. It may be begun again when it is done.
class AllToAll {
 public:
  // So many are under way at a time. Each has a slot of its own, for memory that they share.
  static constexpr int kInFlight = 2;

  virtual ~AllToAll() = default;
  // On the group's thread: before anything is sent, and when everything is here.
  virtual void Prepare(int /*slot*/) {}
  virtual void Finish(int /*slot*/) {}
  // May be empty, if what the other rank says of it is too. Asked after Prepare, and never of the
  // rank itself.
  virtual std::span<const std::byte> Outgoing(int to, int slot) const = 0;
  virtual std::span<std::byte> Incoming(int from, int slot) = 0;
};

// An all-to-all that two functions describe: to(rank) is what goes to a rank, from(rank) the place
// of what comes from it.
template <class To, class From>
class Exchange final : public AllToAll {
 public:
  Exchange(To to, From from) : to_(std::move(to)), from_(std::move(from)) {}

  std::span<const std::byte> Outgoing(int to, int /*slot*/) const override {
    return std::as_bytes(to_(to));
  }
  std::span<std::byte> Incoming(int from, int /*slot*/) override {
    return std::as_writable_bytes(from_(from));
  }

 private:
  To to_;
  From from_;
};

// Some ranks of a group: every stride-th from the first on.
struct Members {
  int first = 0, stride = 1, size = 1;

  int RankOf(int member) const { return first + member * stride; }
};

// The ranks of a run: processes that do the same work on parts of the same data, and call the
// functions below in the same order. Messages go through a thread of the group's own, so that they
// come and go while the program computes. Ranks tell each other every second that they are there.
class Group {
 public:
  using Connect = std::function<std::unique_ptr<Transport>()>;

  // Makes the group of one rank alone.
  Group();
  // Connects on the group's thread. Throws what `connect` throws.
  explicit Group(Connect connect, GroupOptions options = {});
  // Waits for the others to come here too, unless an exception is on its way or a rank is lost.
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool first() const { return rank_ == 0; }
  // "rank 3 (node7, process 4711)"
  std::string NameOf(int rank) const;
  const std::string& HostOf(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  const std::string& transport() const { return transport_name_; }  // "" for one alone

  // Begins an all-to-all, which must live until it is done; they are done in this order. One among
  // members, of whom this rank is one, counts them and not the ranks; every other rank begins one
  // among others then, or none.
  uint64_t Begin(AllToAll& all_to_all) { return Begin(all_to_all, {.size = size_}); }
  uint64_t Begin(AllToAll& all_to_all, const Members& among);
  // Waits for that one, and so for all before it. Throws a kRuntime Error where a rank is lost.
  void Wait(uint64_t ticket);
  // Makes an all-to-all that the program waits for now: done in the order of its kind, whatever was
  // begun before.
  void Do(AllToAll& all_to_all) { Do(all_to_all, {.size = size_}); }
  void Do(AllToAll& all_to_all, const Members& among);

  // The string of each rank for this one, by rank, of which each sends `to` the others: one for
  // each, by rank, or one for all.
  std::vector<std::string> Swap(std::span<const std::string> to);
  // The string of each rank, by rank; the second, where all strings have the same size, is sooner
  // done.
  std::vector<std::string> Gather(const std::string& mine) { return Swap({&mine, 1}); }
  std::vector<std::string> GatherEqual(const std::string& mine);
  // The string of the first rank.
  std::string Broadcast(const std::string& mine) { return Gather(first() ? mine : "").front(); }

  // Says how far the run is: it is told beside the name of a rank that is lost.
  void set_progress(const std::string& progress);
  GroupTraffic traffic() const;
  // Returns whether a rank is lost, which was told.
  bool failed() const;
  // Ends all ranks; see Transport.
  void Abort(int status);

 private:
  struct Impl;

  int rank_ = 0, size_ = 1;
  std::string transport_name_;
  std::vector<std::string> names_, hosts_;
  std::unique_ptr<Impl> impl_;  // null for one alone
};

// The numbers of each rank, by rank: as many of each.
template <class Number>
std::vector<std::vector<Number>> GatherNumbers(Group& group, const std::vector<Number>& mine) {
  static_assert(std::is_arithmetic_v<Number>);
  const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(Number));
  std::vector<std::vector<Number>> all;
  for (const std::string& said : group.GatherEqual(text)) {
    all.emplace_back(mine.size());
    std::copy(said.begin(), said.end(), reinterpret_cast<char*>(all.back().data()));
  }
  return all;
}

// The first rank's `mine`, for all ranks. A group of null, here and below, is one rank alone.
inline std::string Broadcast(Group* group, const std::string& mine) {
  return group == nullptr ? mine : group->Broadcast(mine);
}

// An error as a string, for other ranks, and back.
std::string PackError(const Error& error);
Error UnpackError(const std::string& packed);

// The result of find(), which the first rank alone calls, for all ranks. An Error of kind kInput is
// thrown on all of them too.
std::string BroadcastResult(Group* group, const std::function<std::string()>& find);

// Throws a kUsage Error unless all ranks say the same: it names the first rank that says something
// else than the first one, and the lines that differ, and has this help. `what` is "settings"; all
// ranks call it.
void RequireSame(
    Group& group, const std::string& what, const std::string& lines,
    const std::string& help = "start all ranks with the same program, command line and files");

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

// The other ranks as workers of the first one, which alone knows the whole of the work: it hands
// out shares and gets an answer to each. Those whose work goes so take part in nothing else
// meanwhile.
class Workers {
 public:
  // The answer to a share. The Error that it throws is thrown at the first rank.
  using Work = std::function<std::string(const std::string& share)>;

  // The group, null for one rank alone, must outlive it.
  explicit Workers(Group* group) : group_(group) {}
  // On the first rank: waits for answers that are still to come, and sends the workers home.
  ~Workers();
  Workers(const Workers&) = delete;

  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }

  // On the first rank, in turns: hands shares out, by rank, of which its own is not looked at;
  // and waits for what the others answer, by rank, its own being "". Throws the Error of the first
  // rank that has thrown one.
  void Scatter(std::vector<std::string> shares);
  std::vector<std::string> Gather();

  // On every other rank: works until it is sent home.
  void Serve(const Work& work);

 private:
  Group* group_;
  bool scattered_ = false;
};

}  // namespace folio
