#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/infer/decode_batch.h"
#include "folio/infer/opened_model.h"
#include "folio/model/params.h"
#include "folio/serve/float_copy.h"

namespace folio {

// A client. Turns and shares of slots and queue are given to keys, and within a key to addresses.
struct ClientName {
  std::string key = {};  // its name; "" where none is needed
  std::string address = {};
};

// The texts of one request, on their way through a Scheduler.
class SequenceGroup {
 public:
  // Ends the texts that have not ended, within a step of the model.
  void Cancel() { cancelled_ = true; }
  // Throws an ApiError where they did not end by themselves: 500 if the model failed, 503 if
  // memory did not suffice, 429 if they had to make room for other clients. Known once on_end was
  // called.
  void ThrowIfFailed() const;

 private:
  friend class Scheduler;
  struct Text {
    TextRequest request = {};  // until it is the batch's
    DecodeBatch::Id id = 0;    // from then on
    bool parked = false, ended = false;
    double joined = 0;  // when it got its slot; 0 before it had one
    // The time after which others may have the slot, set at its first token there.
    double turn_ends = std::numeric_limits<double>::infinity();
  };
  // The status is the last to be set.
  void Fail(int status, const char* why) noexcept;
  bool waits() const { return !waiting_.empty() || parked_ > 0; }  // some of them, for a slot

  ClientName client_;
  std::function<bool()> unread_;
  std::list<Text> waiting_, begun_;
  int64_t parked_ = 0;             // of those that have begun
  bool paused_ = false;            // none gets a slot
  std::atomic<int64_t> left_ = 0;  // that have not ended
  std::atomic<bool> cancelled_ = false;
  std::atomic<int> failed_ = 0;  // a status of HTTP
  std::string failure_;
};

// Counts the places of a shared resource that clients hold. Keys have equal shares of it, and the
// addresses of a key equal shares of the key's.
class ClientShares {
 public:
  explicit ClientShares(int64_t room) : room_(room) {}

  // Adds `count` to what the client holds; with 0 it only gets a share.
  void Hold(const ClientName& client, int64_t count);
  // Returns how many its key and its address hold.
  std::pair<int64_t, int64_t> Held(const ClientName& client) const;
  // Returns true where the client, or its address in a key that has its share, holds no more than
  // an equal share, or one.
  bool IsWithin(const ClientName& client) const;
  // Returns true where `other` holds more than its share of what `client`, which IsWithin, is to
  // have: of all or, if the key of that has its share, of the key's.
  bool GivesWay(const ClientName& other, const ClientName& client) const;
  // Returns true where there are more clients than places, and these two take turns.
  bool TakesTurns(const ClientName& other, const ClientName& client) const;

 private:
  struct Holding {
    int64_t count = 0;
    std::map<std::string, int64_t> addresses = {};
  };
  int64_t share() const { return std::max<int64_t>(room_ / std::ssize(keys_), 1); }
  int64_t ShareIn(const Holding& key) const {
    return std::max<int64_t>(share() / std::ssize(key.addresses), 1);
  }

  int64_t room_;
  std::map<std::string, Holding> keys_ = {};
};

// A model that generates texts for many clients: a DecodeBatch on a thread of its own. Texts join
// and leave between steps, in the order in which they come, but by turns between keys, between the
// addresses of a key, and between the requests of an address, so that a client with many requests
// does not make the others wait for all of them.
//
// One client cannot lock the others out. One client alone may have all slots and the queue. When
// all slots are taken, a client with less than an equal share gets one from a client with more: the
// text that has been in its slot for longest is parked until its next turn. Where there are more
// clients than slots, they have these by turns. When the queue is full, a client with less than an
// equal share of slots and queue takes the place of the newest request of a client with more. Texts
// whose client leaves too much unread have no slot.
class Scheduler {
 public:
  struct Options {
    int64_t slots = 8;                // texts at once
    int64_t queue = 64;               // that wait, at most
    std::optional<Dtype> cache = {};  // as DecodeBatchOptions
  };

  // The model must outlive it. Throws as DecodeBatch does.
  Scheduler(const OpenedModel& model, const Options& options);
  // Ends what runs, as kCancelled.
  ~Scheduler();

  // Takes the texts of a client's request. Their callbacks come from the scheduler's thread and
  // must be quick; each on_end is called once. `unread`, which is quick and for any thread, returns
  // true while the client leaves so much unread that they are to wait. Throws an ApiError: 429
  // where the queue is full, and the client has its share of it. REQUIRES: CheckGeneration lets
  // them pass.
  std::shared_ptr<SequenceGroup> Submit(ClientName client, std::vector<TextRequest> texts,
                                        std::function<bool()> unread = {});

  int64_t running() const { return running_; }
  int64_t waiting() const { return waiting_; }  // with those that are parked
  // These are the numbers of the DecodeBatch.
  int64_t cache_bytes() const { return cache_bytes_; }
  int64_t used_cache_bytes() const { return used_cache_bytes_; }
  const Options& options() const { return options_; }

 private:
  using Texts = std::shared_ptr<SequenceGroup>;
  using Text = SequenceGroup::Text;
  using OnEnd = std::function<void(FinishReason, const GenerateStats&)>;
  // Turns are those of keys, in each its addresses, in each its requests. The first is next.
  struct Turn {
    std::string name = {};  // of a key or an address
    std::list<Turn> inner = {};
    Texts texts = {};  // of a request
  };
  struct Slot {
    Texts texts = {};
    Text* text = nullptr;
  };
  static Turn& InTurns(std::list<Turn>& turns, const std::string& name);
  template <class May>
  static Texts TakeTurn(std::list<Turn>& turns, const May& may);
  static void Prune(std::list<Turn>& turns);

  void Run();
  void MakeBatch();
  bool MakeRoom(const ClientName& client, int64_t count);
  void Enqueue(const Texts& scheduled, std::vector<TextRequest> texts);
  void AddTurn(const Texts& texts);
  void Admit();
  void PauseUnread();
  bool ShareSlots();
  Slot SlotFor(const ClientShares& shares, const ClientName& client) const;
  void Begin(SequenceGroup& texts);
  void GiveSlot(SequenceGroup& texts);
  void Park(const Texts& texts, Text& text);
  void RemoveEnded();
  void DropCancelled() noexcept;
  void End(SequenceGroup& texts, Text& text, const OnEnd& tell, FinishReason reason,
           const GenerateStats& stats) noexcept;
  void FailAll(int status, const char* why) noexcept;

  const OpenedModel& model_;
  Options options_;
  std::unique_ptr<DecodeBatch> batch_;  // none where it threw, until there is memory for another
  std::mutex mutex_;
  std::condition_variable news_;
  std::list<Turn> turns_;    // of keys
  std::list<Texts> open_;    // that have not ended, the newest last
  std::list<Text> evicted_;  // that made room, and are to be told so
  int64_t paused_ = 0;       // of those that wait
  bool stopped_ = false;
  std::atomic<int64_t> running_ = 0, waiting_ = 0, cache_bytes_ = 0, used_cache_bytes_ = 0;
  std::thread thread_;
};

// A model of a service: opened, with a tokenizer, and with what writes for its clients.
struct ServedModel {
  std::string name;
  // The id is the same for the same model by the same name, whenever and wherever it is served.
  std::string id;
  OpenedModel model;
  int64_t created = 0;  // seconds since 1970, of its files
  bool of_run = false;  // whether the page opened it from a run that the service shows
  std::unique_ptr<Scheduler> scheduler;
  // The backend is for requests that look into the model while it writes: one at a time, which
  // holds `inspect_mutex`.
  std::unique_ptr<Backend> inspect_backend;
  std::mutex inspect_mutex;
  std::unique_ptr<FloatCopy> floats;  // the weights that these requests look into
  // The page's view of all tokens, made at the first request for it.
  std::string projected;
  std::mutex projected_mutex;

  const GptConfig& config() const { return model.weights->config(); }
  ModelSummary summary() const { return ModelSummary(model.weights->table()); }
  const Tokenizer& tokenizer() const { return *model.tokenizer; }
};

}  // namespace folio
