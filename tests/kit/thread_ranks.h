#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/ranks/group.h"
#include "folio/ranks/transport.h"

namespace folio {

// Ranks that are threads of this process and exchange copies of messages.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : mail_(std::make_shared<Mail>(size)) {}
  ThreadRanks(const ThreadRanks&) = delete;

  // Connects the Group of this rank, which the ThreadRanks must outlive.
  Group::Connect Connect(int rank) {
    return [mail = mail_, rank] { return std::make_unique<Rank>(mail, rank); };
  }
  // From now on nothing that this rank sends arrives, as if it were dead.
  void Silence(int rank) { mail_->silent[static_cast<size_t>(rank)] = true; }

 private:
  struct Mail {
    explicit Mail(int ranks) : size(ranks), silent(static_cast<size_t>(ranks)) {}

    using Message = std::vector<std::byte>;

    const int size;
    std::vector<std::atomic<bool>> silent;
    std::mutex mutex;
    std::map<std::tuple<int, int, int>, std::deque<Message>> boxes;  // from, to, tag
  };

  class Rank final : public Transport {
   public:
    Rank(std::shared_ptr<Mail> mail, int rank) : mail_(std::move(mail)), rank_(rank) {}

    int rank() const override { return rank_; }
    int size() const override { return mail_->size; }
    std::string Name() const override { return "threads"; }

    Request Send(int to, int tag, const void* data, size_t bytes) override {
      if (mail_->silent[static_cast<size_t>(rank_)]) return kNeverDone;
      const auto* from = static_cast<const std::byte*>(data);
      const std::lock_guard lock(mail_->mutex);
      mail_->boxes[{rank_, to, tag}].emplace_back(from, from + bytes);
      return kSent;
    }

    Request Receive(int from, int tag, void* data, size_t bytes) override {
      waiting_.emplace(next_, Waiting{from, tag, static_cast<std::byte*>(data), bytes});
      return next_++;
    }

    bool Done(Request request) override {
      if (request == kSent || request == kNeverDone) return request == kSent;
      const auto it = waiting_.find(request);
      FOLIO_CHECK(it != waiting_.end(), "no such request");
      const Waiting& waiting = it->second;
      // Earlier ones come first.
      for (auto before = waiting_.begin(); before != it; ++before) {
        if (before->second.from == waiting.from && before->second.tag == waiting.tag) return false;
      }
      const std::lock_guard lock(mail_->mutex);
      std::deque<Mail::Message>& box = mail_->boxes[{waiting.from, rank_, waiting.tag}];
      if (box.empty()) return false;
      FOLIO_CHECK(box.front().size() == waiting.bytes, "a message of another size");
      std::copy(box.front().begin(), box.front().end(), waiting.data);
      box.pop_front();
      waiting_.erase(it);
      return true;
    }

    void Abort(int /*status*/) override {
      for (std::atomic<bool>& silent : mail_->silent) silent = true;
    }

   private:
    struct Waiting {
      int from, tag;
      std::byte* data;
      size_t bytes;
    };
    static constexpr Request kSent = -1, kNeverDone = -2;

    std::shared_ptr<Mail> mail_;
    int rank_;
    Request next_ = 0;
    std::map<Request, Waiting> waiting_;
  };

  std::shared_ptr<Mail> mail_;
};

// Calls run(group) on `size` threads, each with the Group of its rank, and waits for all. Throws
// the exception of the first one, by rank, that threw.
inline void RunOnThreads(int size, const std::function<void(Group&)>& run,
                         const GroupOptions& options = {}) {
  ThreadRanks ranks(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Group group(ranks.Connect(rank), options);
        run(group);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace folio
