#include "folio/ranks/group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "folio/base/clock.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/ranks/transport.h"

namespace folio {

namespace {

// One tag for each lane, and one for heartbeats.
constexpr int kBulkTag = 1, kAtOnceTag = 2, kBeatTag = 3;
constexpr double kBeatSeconds = 1, kTellSeconds = 0.1;
// Separates the parts of an error that is sent to other ranks.
constexpr char kBetweenParts[] = "\x1f";

// Exchanges strings of sizes that all ranks know: `to` has one for each rank, or one for all.
void ExchangeStrings(Group& group, std::span<const std::string> to,
                     std::vector<std::string>& from) {
  Exchange strings(
      [&](int rank) { return std::span(to.size() == 1 ? to[0] : to[static_cast<size_t>(rank)]); },
      [&](int rank) { return std::span(from[static_cast<size_t>(rank)]); });
  group.Do(strings);
}

// Heartbeats of other ranks. The first rank listens to all, all listen to the first.
class Heartbeat {
 public:
  explicit Heartbeat(Transport& transport) : transport_(transport) {
    const int first = transport.rank() == 0 ? 1 : 0;
    const int end = transport.rank() == 0 ? transport.size() : 1;
    const double now = SteadySeconds();
    for (int rank = first; rank < end; ++rank) peers_.push_back({.rank = rank, .heard = now});
    // Only after all peers exist: requests point into them.
    for (Peer& peer : peers_) Listen(peer);
    looked_ = now;
  }

  // Returns a rank that has been silent for this long, or -1.
  int Beat(double silence_seconds) {
    const double now = SteadySeconds();
    // A process that was stopped itself, as schedulers do, could not listen.
    const double gap = now - looked_ > silence_seconds / 2 ? now - looked_ : 0;
    looked_ = now;
    const bool due = now - sent_ >= kBeatSeconds;
    if (due) sent_ = now;
    int silent = -1;
    for (Peer& peer : peers_) {
      peer.heard += gap;
      while (transport_.Done(peer.receive)) {
        peer.heard = now;
        Listen(peer);
      }
      if (peer.sending && transport_.Done(peer.send)) peer.sending = false;
      if (due && !peer.sending) {
        peer.send = transport_.Send(peer.rank, kBeatTag, &peer.out, sizeof(peer.out));
        peer.sending = true;
      }
      if (now - peer.heard > silence_seconds) silent = peer.rank;
    }
    return silent;
  }

 private:
  struct Peer {
    int rank = 0;
    double heard = 0;
    Transport::Request receive = 0, send = 0;
    bool sending = false;
    char in = 0, out = 0;
  };

  void Listen(Peer& peer) {
    peer.receive = transport_.Receive(peer.rank, kBeatTag, &peer.in, sizeof(peer.in));
  }

  Transport& transport_;
  std::deque<Peer> peers_;
  double looked_ = 0, sent_ = 0;
};

}  // namespace

struct Group::Impl {
  struct UnderWay {
    AllToAll* all_to_all = nullptr;
    Members among = {};
    uint64_t ticket = 0;
    std::vector<Transport::Request> requests = {};
    int slot() const { return static_cast<int>(ticket % AllToAll::kInFlight); }
  };

  // Exchanges that are executed in order. Those of one lane may overtake those of the other.
  struct Lane {
    int tag;
    std::deque<UnderWay> queue = {};
    std::deque<UnderWay> under_way = {};  // used by the group's thread alone
    uint64_t begun = 0, done = 0;
  };

  // Both functions REQUIRE the lock.
  uint64_t Begin(Lane& lane, AllToAll& all_to_all, const Members& among) {
    if (failed) throw Error(*failed);
    lane.queue.push_back({.all_to_all = &all_to_all, .among = among, .ticket = ++lane.begun});
    changed.notify_all();
    return lane.begun;
  }
  void Wait(const Lane& lane, uint64_t ticket, std::unique_lock<std::mutex>& lock) {
    if (lane.done >= ticket) return;
    const double begin = SteadySeconds();
    changed.wait(lock, [&] { return lane.done >= ticket || failed; });
    traffic.seconds_waited += SteadySeconds() - begin;
    if (lane.done < ticket) throw Error(*failed);
  }

  void Run(const Connect& connect) {
    try {
      transport = connect();
      const std::lock_guard lock(mutex);
      connected = true;
    } catch (...) {
      const std::lock_guard lock(mutex);
      refused = std::current_exception();
    }
    changed.notify_all();
    if (transport == nullptr) return;
    Heartbeat heartbeat(*transport);
    double idle = SteadySeconds(), told = idle;
    for (;;) {
      const bool moved = Move();
      const double now = SteadySeconds();
      if (moved) idle = now;
      const int silent = heartbeat.Beat(options.silence_seconds);
      if (silent >= 0 && !IsClosing()) return Lost(silent);
      if (aborting >= 0) return transport->Abort(aborting);
      if (options.on_heartbeat && now - told >= kTellSeconds) {
        told = now;
        options.on_heartbeat(Progress());
      }
      if (moved) continue;
      std::unique_lock lock(mutex);
      const auto queued = [&] { return !bulk.queue.empty() || !at_once.queue.empty(); };
      if (closing && !queued() && under_way() == 0) break;
      if (under_way() == 0) {
        changed.wait_for(lock, std::chrono::milliseconds(20),
                         [&] { return queued() || closing || aborting >= 0; });
        continue;
      }
      lock.unlock();
      // Stays awake only briefly: others may need the processor.
      constexpr double kAwake = 30e-6;
      if (now - idle > kAwake) std::this_thread::sleep_for(std::chrono::microseconds(40));
    }
    transport.reset();
  }

  std::string Progress() {
    const std::lock_guard lock(mutex);
    return progress;
  }

  bool IsClosing() {
    const std::lock_guard lock(mutex);
    return closing;
  }

  size_t under_way() const { return bulk.under_way.size() + at_once.under_way.size(); }

  // Starts and finishes exchanges where possible; returns false if nothing changed.
  bool Move() {
    const bool moved = Move(at_once);
    return Move(bulk) || moved;
  }

  bool Move(Lane& lane) {
    bool moved = false;
    while (static_cast<int>(lane.under_way.size()) < AllToAll::kInFlight) {
      UnderWay next;
      {
        const std::lock_guard lock(mutex);
        if (lane.queue.empty()) break;
        next = lane.queue.front();
        lane.queue.pop_front();
        if (under_way() == 0) busy_since = SteadySeconds();
      }
      Post(next, lane.tag);
      lane.under_way.push_back(std::move(next));
      moved = true;
    }
    while (!lane.under_way.empty()) {
      UnderWay& oldest = lane.under_way.front();
      std::erase_if(oldest.requests, [&](Transport::Request r) { return transport->Done(r); });
      if (!oldest.requests.empty()) break;
      oldest.all_to_all->Finish(oldest.slot());
      {
        const std::lock_guard lock(mutex);
        lane.done = oldest.ticket;
        if (under_way() == 1) traffic.seconds += SteadySeconds() - busy_since;
      }
      lane.under_way.pop_front();
      changed.notify_all();
      moved = true;
    }
    // Later exchanges may proceed meanwhile.
    for (size_t i = 1; i < lane.under_way.size(); ++i) {
      std::erase_if(lane.under_way[i].requests,
                    [&](Transport::Request r) { return transport->Done(r); });
    }
    return moved;
  }

  void Post(UnderWay& next, int tag) {
    const Members& among = next.among;
    const int rank = (transport->rank() - among.first) / among.stride, size = among.size;
    const int slot = next.slot();
    AllToAll& all_to_all = *next.all_to_all;
    all_to_all.Prepare(slot);
    // Each rank begins with its neighbour, so that they do not all send to the same one.
    for (int distance = 1; distance < size; ++distance) {
      const int from = (rank + size - distance) % size;
      const std::span<std::byte> in = all_to_all.Incoming(from, slot);
      if (in.empty()) continue;
      next.requests.push_back(transport->Receive(among.RankOf(from), tag, in.data(), in.size()));
    }
    uint64_t bytes = 0;
    for (int distance = 1; distance < size; ++distance) {
      const int to = (rank + distance) % size;
      const std::span<const std::byte> out = all_to_all.Outgoing(to, slot);
      if (out.empty()) continue;
      next.requests.push_back(transport->Send(among.RankOf(to), tag, out.data(), out.size()));
      bytes += out.size();
    }
    const std::lock_guard lock(mutex);
    traffic.bytes_sent += bytes;
  }

  void Lost(int silent) {
    // All but the first rank listen to the first alone; one report is enough.
    const int before = std::clamp(transport->rank() - 1, 0, 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(100) * before);
    std::string name, where;
    {
      const std::lock_guard lock(mutex);
      name = names[static_cast<size_t>(silent)];
      where = progress;
    }
    const Error error =
        RuntimeError(fmt::format("{} has not responded for {:g} s", name, options.silence_seconds),
                     where, "repair or remove that machine, then continue with --resume");
    if (options.on_lost) options.on_lost(error);
    {
      const std::lock_guard lock(mutex);
      failed = error;
    }
    changed.notify_all();
    transport->Abort(error.exit_status());
  }

  GroupOptions options;
  std::unique_ptr<Transport> transport;
  double busy_since = 0;  // used by the group's thread alone

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool connected = false, closing = false;
  std::exception_ptr refused;
  Lane bulk{.tag = kBulkTag}, at_once{.tag = kAtOnceTag};
  std::optional<Error> failed;
  std::atomic<int> aborting = -1;  // the exit status
  std::string progress;
  std::vector<std::string> names;
  GroupTraffic traffic;
  std::thread thread;
};

Group::Group() = default;

Group::Group(Connect connect, GroupOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->thread =
      std::thread([impl = impl_.get(), connect = std::move(connect)] { impl->Run(connect); });
  {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] { return impl_->connected || impl_->refused != nullptr; });
  }
  if (impl_->refused != nullptr) {
    impl_->thread.join();
    std::rethrow_exception(impl_->refused);
  }
  rank_ = impl_->transport->rank();
  size_ = impl_->transport->size();
  transport_name_ = impl_->transport->Name();
  for (int r = 0; r < size_; ++r) names_.push_back(fmt::format("rank {}", r));
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->names = names_;
  }
  hosts_ = Gather(HostName());
  const std::vector<std::string> processes = Gather(fmt::format("process {}", getpid()));
  for (size_t r = 0; r < names_.size(); ++r) {
    names_[r] += fmt::format(" ({}, {})", hosts_[r], processes[r]);
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->names = names_;
}

Group::~Group() {
  if (impl_ == nullptr) return;
  // All leave together: a rank that leaves earlier is silent to the others.
  if (std::uncaught_exceptions() == 0) {
    try {
      Gather("");
    } catch (const Error&) {  // a rank is lost, which was reported
    }
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::string Group::NameOf(int rank) const {
  return alone() ? "rank 0" : names_[static_cast<size_t>(rank)];
}

uint64_t Group::Begin(AllToAll& all_to_all, const Members& among) {
  if (impl_ == nullptr) {
    all_to_all.Prepare(0);
    all_to_all.Finish(0);
    return 0;
  }
  const std::lock_guard lock(impl_->mutex);
  return impl_->Begin(impl_->bulk, all_to_all, among);
}

void Group::Wait(uint64_t ticket) {
  if (impl_ == nullptr) return;
  std::unique_lock lock(impl_->mutex);
  impl_->Wait(impl_->bulk, ticket, lock);
}

void Group::Do(AllToAll& all_to_all, const Members& among) {
  if (impl_ == nullptr) {
    all_to_all.Prepare(0);
    all_to_all.Finish(0);
    return;
  }
  std::unique_lock lock(impl_->mutex);
  impl_->Wait(impl_->at_once, impl_->Begin(impl_->at_once, all_to_all, among), lock);
}

std::vector<std::string> Group::Swap(std::span<const std::string> to) {
  if (impl_ == nullptr) return {to[0]};
  const auto own = static_cast<size_t>(to.size() == 1 ? 0 : rank_);
  uint64_t size = 0;
  std::vector<std::string> sizes_to,
      sizes(static_cast<size_t>(size_), std::string(sizeof(size), 0));
  for (const std::string& text : to) {
    size = text.size();
    FOLIO_CHECK(size <= Transport::kMostBytes, "more than a message holds");
    sizes_to.emplace_back(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  sizes[static_cast<size_t>(rank_)] = sizes_to[own];
  ExchangeStrings(*this, sizes_to, sizes);
  std::vector<std::string> from;
  for (const std::string& text : sizes) {
    std::memcpy(&size, text.data(), sizeof(size));
    FOLIO_CHECK(size <= Transport::kMostBytes, "more than a message holds");
    from.emplace_back(size, '\0');
  }
  ExchangeStrings(*this, to, from);
  from[static_cast<size_t>(rank_)] = to[own];
  return from;
}

std::vector<std::string> Group::GatherEqual(const std::string& mine) {
  std::vector<std::string> all(static_cast<size_t>(size_), mine);
  ExchangeStrings(*this, {&mine, 1}, all);
  return all;
}

void Group::set_progress(const std::string& progress) {
  if (impl_ == nullptr) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->progress = progress;
}

bool Group::failed() const {
  if (impl_ == nullptr) return false;
  const std::lock_guard lock(impl_->mutex);
  return impl_->failed.has_value();
}

GroupTraffic Group::traffic() const {
  if (impl_ == nullptr) return {};
  const std::lock_guard lock(impl_->mutex);
  return impl_->traffic;
}

void Group::Abort(int status) {
  if (impl_ == nullptr) return;
  impl_->aborting = status;
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::string PackError(const Error& error) {
  const std::vector<std::string> parts = {std::to_string(error.exit_status()), error.what(),
                                          error.cause(), error.help()};
  return Join(parts, kBetweenParts);
}

Error UnpackError(const std::string& packed) {
  const std::vector<std::string> parts = Split(packed, kBetweenParts[0]);
  return {static_cast<ErrorKind>(std::stoi(parts[0])), parts[1], parts[2], parts[3]};
}

std::string BroadcastResult(Group* group, const std::function<std::string()>& find) {
  if (group == nullptr) return find();
  std::string found, failed;
  if (group->first()) {
    try {
      found = find();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      failed = fmt::format("{}: {}", error.what(), error.cause());
    }
  }
  failed = group->Broadcast(failed);
  if (!failed.empty()) throw InputError(failed);
  return group->Broadcast(found);
}

void RequireSame(Group& group, const std::string& what, const std::string& lines,
                 const std::string& help) {
  constexpr size_t kMostShown = 3;
  const std::vector<std::string> all = group.Gather(lines);
  for (int rank = 1; rank < group.size(); ++rank) {
    const std::string& others = all[static_cast<size_t>(rank)];
    if (others == all[0]) continue;
    const std::vector<std::string> had = Split(all[0], '\n'), has = Split(others, '\n');
    std::vector<std::string> differences;
    for (size_t i = 0; i < std::max(had.size(), has.size()); ++i) {
      const std::string was = i < had.size() ? had[i] : "nothing";
      const std::string is = i < has.size() ? has[i] : "nothing";
      if (was != is) differences.push_back(fmt::format("'{}' there, '{}' at rank 0", is, was));
    }
    const size_t more = differences.size() > kMostShown ? differences.size() - kMostShown : 0;
    differences.resize(differences.size() - more);
    throw UsageError(
        fmt::format("{} and the first rank have different {}", group.NameOf(rank), what),
        Join(differences, "; ") + (more > 0 ? fmt::format("; and {} more", more) : ""), help);
  }
}

namespace {

// The first byte of messages to a worker, and of its answers.
constexpr char kShare = 's', kHome = 'h', kAnswer = 'a', kError = 'e';

}  // namespace

Workers::~Workers() {
  if (group_ == nullptr || group_->alone() || !first()) return;
  try {
    if (scattered_) group_->Swap(std::vector<std::string>(static_cast<size_t>(ranks())));
    group_->Swap(std::vector<std::string>(static_cast<size_t>(ranks()), {kHome}));
  } catch (const Error&) {  // a rank is lost, which was reported
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
    if (answer.empty()) continue;  // this rank's own
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
                                     HumanBytes(mine[0].size())),
                         "ranks exchange at most 1 GB at a time", "use one rank");
      }
    } catch (const Error& error) {
      mine[0] = kError + PackError(error);
    }
    group_->Swap(mine);
  }
}

}  // namespace folio
