#pragma once

#include <functional>
#include <memory>

#include "folio/dist/group.h"

namespace folio {

// Ranks that are threads of this process and hand each other copies of messages.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size);
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;

  // Connects the Group of this rank, which the ThreadRanks must outlive.
  Group::Connect Connect(int rank);
  // Lets nothing that this rank sends arrive from here on, as if it were dead.
  void Silence(int rank);

 private:
  struct Mail;
  class Rank;

  std::shared_ptr<Mail> mail_;
};

// Calls run(group) on `size` threads, each with the Group of its rank, and waits for all. Throws
// what the first of them, by rank, has thrown.
void RunOnThreads(int size, const std::function<void(Group&)>& run,
                  const GroupOptions& options = {});

}  // namespace folio
