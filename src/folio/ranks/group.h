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

// The traffic between the ranks so far, as measured by this one.
struct GroupTraffic {
  uint64_t bytes_sent = 0;
  double seconds = 0;         // while an all-to-all was in progress
  double seconds_waited = 0;  // of these, while the program had to wait
};

struct GroupOptions {
  double silence_seconds = 10;  // a rank that is silent for this long is lost
  // Called once by the group's thread when a rank is lost, before Abort. Waiting functions then
  // throw this error, if they get that far.
  std::function<void(const Error&)> on_lost = {};
  // Called by the group's thread several times a second, whatever the program does; `progress` is
  // the argument of set_progress.
  std::function<void(const std::string& progress)> on_heartbeat = {};
};

// The one collective of a Group: each rank sends to each of the others and receives from it, all at
// once. It may be started again when it is done.
class AllToAll {
 public:
  // At most this many are in progress at a time. Each has a slot, for memory that they share.
  static constexpr int kInFlight = 2;

  virtual ~AllToAll() = default;
  // Called on the group's thread: before anything is sent, and when everything has arrived.
  virtual void Prepare(int /*slot*/) {}
  virtual void Finish(int /*slot*/) {}
  // May be empty, if the other rank's is too. Called after Prepare, and never for the rank itself.
  virtual std::span<const std::byte> Outgoing(int to, int slot) const = 0;
  virtual std::span<std::byte> Incoming(int from, int slot) = 0;
};

// An all-to-all of two functions: to(rank) is what is sent to a rank, from(rank) the destination of
// what it sends.
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
// functions below in the same order. The group's own thread exchanges messages while the program
// computes. Ranks send each other a heartbeat every second.
class Group {
 public:
  using Connect = std::function<std::unique_ptr<Transport>()>;

  // A group of one rank.
  Group();
  // Connects on the group's thread. Throws what `connect` throws.
  explicit Group(Connect connect, GroupOptions options = {});
  // Waits for the others to get here too, unless an exception is in flight or a rank is lost.
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool first() const { return rank_ == 0; }
  // "rank 3 (node7, process 4711)"
  std::string NameOf(int rank) const;
  const std::string& HostOf(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  const std::string& transport() const { return transport_name_; }  // "" for one rank

  // Begins an all-to-all, which must live until it is done; they are executed in this order. An
  // all-to-all among members, one of which is this rank, uses their numbers instead of ranks; every
  // other rank then begins one among other members, or none.
  uint64_t Begin(AllToAll& all_to_all) { return Begin(all_to_all, {.size = size_}); }
  uint64_t Begin(AllToAll& all_to_all, const Members& among);
  // Waits for that one, and so for all before it. Throws a kRuntime Error if a rank is lost.
  void Wait(uint64_t ticket);
  // Executes an all-to-all that the program waits for at once: in order among its kind, whatever
  // Begin has started.
  void Do(AllToAll& all_to_all) { Do(all_to_all, {.size = size_}); }
  void Do(AllToAll& all_to_all, const Members& among);

  // The string that each rank sends to this one, by rank; `to` has one for each rank, or for all.
  std::vector<std::string> Swap(std::span<const std::string> to);
  // The string of each rank, by rank; the second is faster, for strings of equal size.
  std::vector<std::string> Gather(const std::string& mine) { return Swap({&mine, 1}); }
  std::vector<std::string> GatherEqual(const std::string& mine);
  // The string of the first rank.
  std::string Broadcast(const std::string& mine) { return Gather(first() ? mine : "").front(); }

  // Sets the progress of the run: the report of a lost rank includes it.
  void set_progress(const std::string& progress);
  GroupTraffic traffic() const;
  // Returns true if a rank is lost, which was reported.
  bool failed() const;
  // Ends all ranks; see Transport.
  void Abort(int status);

 private:
  struct Impl;

  int rank_ = 0, size_ = 1;
  std::string transport_name_;
  std::vector<std::string> names_, hosts_;
  std::unique_ptr<Impl> impl_;  // null for one rank
};

// The numbers of each rank, by rank: equally many of each.
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

// The first rank's `mine`, on all ranks. A null group, here and below, means one rank.
inline std::string Broadcast(Group* group, const std::string& mine) {
  return group == nullptr ? mine : group->Broadcast(mine);
}

inline bool IsFirst(const Group* group) {
  return group == nullptr || group->first();
}

// An error as a string, for other ranks, and back.
std::string PackError(const Error& error);
Error UnpackError(const std::string& packed);

// The result of find(), which only the first rank calls, on all ranks. An Error of kind kInput is
// thrown on all of them too.
std::string BroadcastResult(Group* group, const std::function<std::string()>& find);

// Throws a kUsage Error with this help unless all ranks have the same text: it names the first rank
// that differs from the first one, and the lines that differ. `what` is "settings"; all ranks call
// it.
void RequireSame(
    Group& group, const std::string& what, const std::string& lines,
    const std::string& help = "start all ranks with the same program, command line and files");

// Ranks of a group that exchange data among themselves, while the others do so in their own
// communicators.
class Communicator {
 public:
  // A communicator of one rank.
  Communicator() = default;
  // The members, one of which is this rank. The group must outlive it.
  Communicator(Group& group, const Members& members) : group_(&group), members_(members) {
    const int distance = group.rank() - members.first;
    rank_ = distance / members.stride;
    FOLIO_CHECK(distance >= 0 && distance % members.stride == 0 && rank_ < members.size &&
                    members.RankOf(members.size - 1) < group.size(),
                "no member of the communicator");
  }

  // This rank's number in the communicator, and the number of members.
  int rank() const { return rank_; }
  int size() const { return members_.size; }
  bool alone() const { return members_.size == 1; }

  // Begins, executes and waits for an all-to-all like a Group, with numbers of the communicator.
  uint64_t Begin(AllToAll& all_to_all) const { return group_->Begin(all_to_all, members_); }
  void Do(AllToAll& all_to_all) const { group_->Do(all_to_all, members_); }
  void Wait(uint64_t ticket) const { group_->Wait(ticket); }

  // The numbers of each member, by its number; all ranks of the group must call it.
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

// Each `tensor` consecutive ranks of a group share the layers of a model: rank r has part r %
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

// The other ranks as workers of the first one, which alone knows all of the work: it distributes
// shares and receives an answer for each. Meanwhile the workers take part in nothing else.
class Workers {
 public:
  // Returns the answer for a share. Its Error is thrown on the first rank.
  using Work = std::function<std::string(const std::string& share)>;

  // The group, null for one rank, must outlive it.
  explicit Workers(Group* group) : group_(group) {}
  // On the first rank: waits for outstanding answers, and releases the workers.
  ~Workers();
  Workers(const Workers&) = delete;

  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return IsFirst(group_); }

  // On the first rank, alternating: distributes shares, by rank, ignoring its own; and waits for
  // the answers of the others, by rank, with "" for its own. Throws the Error of the first rank
  // that threw one.
  void Scatter(std::vector<std::string> shares);
  std::vector<std::string> Gather();

  // On every other rank: works until it is released.
  void Serve(const Work& work);

 private:
  Group* group_;
  bool scattered_ = false;
};

}  // namespace folio
