#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/infer/text_batch.h"

namespace folio {

// The texts of one request, on their way through a Scheduler.
class ScheduledTexts {
 public:
  // Nobody wants them any more: those that have not ended do so within a step of the model.
  void Cancel() { cancelled_ = true; }
  // Why they ended, where the model failed; "" otherwise. Known once on_end was called.
  std::string failure() const;

 private:
  friend class Scheduler;
  std::string client_;
  std::deque<TextRequest> waiting_;
  std::vector<TextBatch::Id> begun_;  // of the batch that runs now
  int64_t left_ = 0;                  // that have not ended
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> failed_ = false;
  std::string failure_;
};

// A model that writes for many: a TextBatch on a thread of its own. Texts join and leave between
// steps. Who comes first is taken first, but in turns: between clients, and between the requests
// of one, so that nobody who asks for much keeps others waiting for all of it.
class Scheduler {
 public:
  struct Options {
    int64_t slots = 8;                // texts at once
    int64_t queue = 64;               // that wait, at most
    std::optional<Dtype> cache = {};  // as TextBatchOptions
  };

  // The model must outlive it. Throws as TextBatch does.
  Scheduler(const OpenedModel& model, const Options& options);
  // Ends what runs, as kCancelled.
  ~Scheduler();

  // Takes the texts of a client's request. Their callbacks come from the scheduler's thread and
  // must be quick; each on_end is called once. Throws an ApiError: 429 where the queue is full.
  // REQUIRES: CheckGeneration lets them pass.
  std::shared_ptr<ScheduledTexts> Submit(std::string client, std::vector<TextRequest> texts);

  int64_t running() const { return running_; }
  int64_t waiting() const { return waiting_; }
  // As of the TextBatch.
  int64_t cache_bytes() const { return cache_bytes_; }
  int64_t used_cache_bytes() const { return used_cache_bytes_; }
  const Options& options() const { return options_; }

 private:
  using Texts = std::shared_ptr<ScheduledTexts>;
  struct Client {
    std::string name;
    std::deque<Texts> requests;
  };

  void Run();
  void Renew();
  void Admit();
  void DropCancelled();
  void End(ScheduledTexts& texts, const std::function<void()>& tell);
  void FailAll(const std::string& why);

  const OpenedModel& model_;
  Options options_;
  std::unique_ptr<TextBatch> batch_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::list<Client> clients_;  // whose texts wait, whose turn is next first
  std::list<Texts> open_;      // that have not ended
  bool stopped_ = false;
  std::atomic<int64_t> running_ = 0, waiting_ = 0, cache_bytes_ = 0, used_cache_bytes_ = 0;
  std::thread thread_;
};

}  // namespace folio
