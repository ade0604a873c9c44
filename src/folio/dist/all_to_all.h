#pragma once

#include <cstddef>
#include <span>

namespace folio {

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

}  // namespace folio
