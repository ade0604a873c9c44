#include "folio/serve/scheduler.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "folio/base/clock.h"
#include "folio/model/transformer.h"
#include "folio/serve/http.h"
#include "folio/serve/test_service.h"
#include "tests/kit/expect.h"
#include "tests/kit/warnings.h"

namespace folio {
namespace {

using Tokens = std::vector<int32_t>;

ClientName Client(const std::string& address, const std::string& key = "") {
  return {.key = key, .address = address};
}

// 0 where they ended by themselves.
int StatusOf(const std::shared_ptr<SequenceGroup>& texts) {
  try {
    texts->ThrowIfFailed();
  } catch (const ApiError& error) {
    return error.status();
  }
  return 0;
}

class Schedulers : public testing::Test {
 protected:
  // A text of its own for each number; `told` is called with its tokens, on the scheduler's thread.
  TextRequest Request(int number, int64_t tokens, std::function<void(const Tokens&)> told) const {
    TextRequest request;
    request.prompt = {number % 256, 65};
    request.options = {.sampling = {.seed = 3}, .max_tokens = tokens, .when_full = WhenFull::kStop};
    request.rng_stream = static_cast<uint64_t>(number);
    auto written = std::make_shared<Tokens>();
    request.on_token = [written](const NewToken& token) {
      written->push_back(token.id);
      return true;
    };
    request.on_end = [written, told = std::move(told)](FinishReason, const GenerateStats&) {
      told(*written);
    };
    return request;
  }
  // They get no further than their first token before Go.
  std::vector<TextRequest> Several(int count, int64_t tokens, const std::string& name) {
    std::vector<TextRequest> requests;
    for (int i = 0; i < count; ++i) {
      requests.push_back(Request(i, tokens, [this, name](const Tokens&) {
        const std::lock_guard lock(mutex_);
        ended_.push_back(name);
      }));
      requests.back().on_token = [this, next = requests.back().on_token](const NewToken& token) {
        while (!going_) std::this_thread::yield();
        return next(token);
      };
    }
    return requests;
  }
  size_t ended() {
    const std::lock_guard lock(mutex_);
    return ended_.size();
  }
  void Go() { going_ = true; }
  void WaitFor(size_t count) {
    Go();
    const double end = SteadySeconds() + 60;
    while (ended() < count) {
      ASSERT_LT(SteadySeconds(), end) << ended();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // At what place of the order in which texts ended the last of this name was.
  size_t LastOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto last = std::find(ended_.rbegin(), ended_.rend(), name);
    return static_cast<size_t>(ended_.rend() - last);
  }

  OpenedModel model_ = SmallModel();
  std::atomic<bool> going_ = false;
  std::mutex mutex_;
  std::vector<std::string> ended_;
};

TEST_F(Schedulers, ATextDoesNotDependOnItsNeighbours) {
  std::map<int, Tokens> alone, together;
  const auto write = [&](int64_t slots, std::map<int, Tokens>& texts) {
    Scheduler scheduler(model_, {.slots = slots});
    for (int i = 0; i < 40; ++i) {
      scheduler.Submit(Client("client"),
                       {Request(i, 5 + i % 30, [&texts, i, this](const Tokens& tokens) {
                         const std::lock_guard lock(mutex_);
                         texts[i] = tokens;
                         ended_.push_back("");
                       })});
      if (slots == 1) WaitFor(static_cast<size_t>(i) + 1);
    }
    WaitFor(40);
    ended_.clear();
  };
  write(1, alone);
  write(8, together);
  EXPECT_EQ(alone, together);
}

TEST_F(Schedulers, WhoAsksForMuchDoesNotKeepOthersWaiting) {
  Scheduler scheduler(model_, {.slots = 2, .queue = 200});
  const auto much = scheduler.Submit(Client("greedy"), Several(100, 40, "greedy"));
  const auto more = scheduler.Submit(Client("greedy"), Several(20, 40, "greedy's other"));
  const auto one = scheduler.Submit(Client("modest"), Several(3, 40, "modest"));
  WaitFor(123);
  // In turns: greedy, modest, greedy, modest, ...
  EXPECT_LE(LastOf("modest"), 12u);
  // And between the requests of one client.
  EXPECT_LE(LastOf("greedy's other"), 60u);
}

TEST_F(Schedulers, TheQueueHasAnEnd) {
  Scheduler scheduler(model_, {.slots = 2, .queue = 3});
  const auto refused = [&](int count) {
    try {
      scheduler.Submit(Client("client"), Several(count, 1, ""));
    } catch (const ApiError& error) {
      return error.status();
    }
    return 200;
  };
  EXPECT_EQ(refused(6), 400) << "more than there will ever be room for";
  const auto held = scheduler.Submit(Client("client"), Several(5, 250, ""));
  EXPECT_EQ(refused(1), 429);
  EXPECT_EQ(scheduler.running() + scheduler.waiting(), 5);
  WaitFor(5);
  while (scheduler.running() > 0) std::this_thread::yield();
  EXPECT_EQ(refused(5), 200);
  WaitFor(10);
}

// The requests of clients at a scheduler whose slots and queue are taken, which go no further.
class SchedulerShares : public Schedulers {
 protected:
  // Returns how many of the client's requests, of so many texts each, are refused at once.
  int Ask(const ClientName& client, int requests, int texts = 1) {
    int refused = 0;
    for (int i = 0; i < requests; ++i) {
      try {
        std::vector<TextRequest> some = Several(texts, 1, client.key + client.address);
        taken_.push_back({client, scheduler_->Submit(client, std::move(some))});
        texts_ += static_cast<size_t>(texts);
      } catch (const ApiError& error) {
        EXPECT_EQ(error.status(), 429) << error.what();
        ++refused;
      }
    }
    return refused;
  }
  // Returns how many of the requests that were taken had to make room.
  int Moved(const ClientName& client) const {
    int moved = 0;
    for (const auto& [taker, texts] : taken_) {
      if (taker.key == client.key && taker.address == client.address && StatusOf(texts) == 429)
        ++moved;
    }
    return moved;
  }
  void Begin(int64_t slots, int64_t queue) {
    going_ = false;
    scheduler_.emplace(model_, Scheduler::Options{.slots = slots, .queue = queue});
  }
  // All that were taken end, and each once.
  void End() {
    WaitFor(texts_);
    while (scheduler_->running() > 0) std::this_thread::yield();
    EXPECT_EQ(scheduler_->waiting(), 0);
    EXPECT_EQ(ended(), texts_);
    scheduler_.reset();
  }
  ~SchedulerShares() override { Go(); }

  std::optional<Scheduler> scheduler_;
  std::vector<std::pair<ClientName, std::shared_ptr<SequenceGroup>>> taken_;
  size_t texts_ = 0;
};

TEST_F(SchedulerShares, AHundredConnectionsOfOneClientLeaveOthersTheirs) {
  Begin(8, 64);
  const ClientName greedy = Client("greedy");
  EXPECT_EQ(Ask(greedy, 100), 28) << "alone it may have all of it";
  // Three others come, each again and again, and each time what it refused asks anew.
  int refused = 0, asked = 0;
  for (int round = 0; round < 10; ++round) {
    for (const char* other : {"one", "two", "three"}) {
      refused += Ask(Client(other), 1);
      ++asked;
      EXPECT_EQ(Ask(greedy, 28), 28) << "what others have is theirs";
    }
  }
  EXPECT_LE(refused, asked / 10);
  EXPECT_EQ(Moved(greedy), 30);
  for (const char* other : {"one", "two", "three"}) EXPECT_EQ(Moved(Client(other)), 0);
  End();
}

TEST_F(SchedulerShares, NobodyGetsMoreThanAnEqualOne) {
  Begin(2, 10);
  EXPECT_EQ(Ask(Client("a"), 12), 0);
  EXPECT_EQ(Ask(Client("b"), 12), 6) << "half of it";
  EXPECT_EQ(Ask(Client("c"), 12), 8) << "a third";
  EXPECT_EQ(Moved(Client("a")) + Moved(Client("b")), 10);
  EXPECT_EQ(Ask(Client("a"), 1) + Ask(Client("b"), 1), 2);
  EXPECT_EQ(Ask(Client("d"), 1, 4), 1) << "four texts are more than a quarter";
  EXPECT_EQ(Ask(Client("d"), 1, 3), 0);
  End();
}

TEST_F(SchedulerShares, AreThoseOfKeysAndInThemOfAddresses) {
  Begin(2, 10);
  // A key that asks from everywhere is one client.
  for (int i = 0; i < 12; ++i) EXPECT_EQ(Ask(Client(std::to_string(i), "many"), 1), 0);
  EXPECT_EQ(Ask(Client("0", "other"), 12), 6);
  EXPECT_EQ(Ask(Client("99", "many"), 1), 1) << "its key has what it may have";
  End();
  // And of one key, no address keeps the others out.
  Begin(2, 10);
  EXPECT_EQ(Ask(Client("greedy", "shared"), 12), 0);
  EXPECT_EQ(Ask(Client("modest", "shared"), 7), 1);
  End();
}

TEST_F(SchedulerShares, ARequestOfManyTextsMakesRoomAsAWhole) {
  Begin(2, 10);
  EXPECT_EQ(Ask(Client("greedy"), 1, 12), 0);
  while (scheduler_->running() < 2) std::this_thread::yield();
  EXPECT_EQ(Ask(Client("modest"), 3), 0);
  EXPECT_EQ(Moved(Client("greedy")), 1);
  End();
  EXPECT_EQ(Moved(Client("modest")), 0);
}

// Turns are those of keys first: many addresses do not get more of them.
TEST_F(Schedulers, KeysTakeTurns) {
  Scheduler scheduler(model_, {.slots = 2, .queue = 200});
  for (int i = 0; i < 40; ++i) {
    scheduler.Submit(Client(std::to_string(i), "greedy"), Several(1, 40, "greedy"));
  }
  scheduler.Submit(Client("0", "modest"), Several(3, 40, "modest"));
  WaitFor(43);
  EXPECT_LE(LastOf("modest"), 12u);
}

// Texts of clients at a scheduler whose slots all are taken by others, and stay so.
class SchedulerSlots : public Schedulers {
 protected:
  // A text that slides for as long as it may.
  TextRequest Endless(int number, int64_t tokens = 1 << 30) {
    TextRequest request = Request(number, tokens, [this, number](const Tokens& text) {
      const std::lock_guard lock(mutex_);
      texts_[number] = text;
      ended_.emplace_back();
    });
    request.options.when_full = WhenFull::kSlide;
    return request;
  }
  std::shared_ptr<SequenceGroup> Ask(const ClientName& client, TextRequest text,
                                     std::function<bool()> unread = {}) {
    std::vector<TextRequest> texts;
    texts.push_back(std::move(text));
    return scheduler_->Submit(client, std::move(texts), std::move(unread));
  }
  void Begin(const Scheduler::Options& options) { scheduler_.emplace(model_, options); }
  // The same text where nothing else runs.
  Tokens Alone(int number, int64_t tokens) {
    Begin({.slots = 1});
    Ask(Client("alone"), Endless(number, tokens));
    WaitFor(1);
    scheduler_.reset();
    ended_.clear();
    return texts_[number];
  }
  // Expects that this client's text of a few tokens ends, as it does alone.
  void ExpectAnswer(const ClientName& client, int number) {
    const size_t before = ended();
    const double begin = SteadySeconds();
    Ask(client, Endless(number, 5));
    WaitFor(before + 1);
    EXPECT_LT(SteadySeconds() - begin, 20) << "much less where nothing else computes";
    EXPECT_EQ(texts_[number], few_.at(number));
  }
  void SetUp() override {
    for (int number = 100; number < 104; ++number) few_[number] = Alone(number, 5);
  }
  ~SchedulerSlots() override { scheduler_.reset(); }

  std::map<int, Tokens> texts_, few_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(SchedulerSlots, EndlessTextsOfOneClientLeaveOthersTheirShare) {
  for (const int64_t slots : {1, 2, 8}) {
    for (const int64_t queue : {0, 64}) {
      if (slots + queue == 1) continue;  // which one alone has
      SCOPED_TRACE(slots * 100 + queue);
      Begin({.slots = slots, .queue = queue});
      for (int i = 0; i < slots; ++i) Ask(Client("hog"), Endless(i));
      while (scheduler_->running() < slots) std::this_thread::yield();
      ExpectAnswer(Client("one"), 100);
      ExpectAnswer(Client("two"), 101);
      scheduler_.reset();
    }
  }
}

// A client that asks anew as soon as it hears of an end has the room that the text leaves.
TEST_F(SchedulerSlots, ATextThatEndedHoldsNoRoomWhenItsClientHearsOfIt) {
  Begin({.slots = 1, .queue = 0});
  Ask(Client("one"), Request(0, 5, [this](const Tokens&) {
        EXPECT_NO_THROW(Ask(Client("one"), Endless(100, 5)));
      }));
  WaitFor(1);
  EXPECT_EQ(texts_[100], few_.at(100));
}

TEST_F(SchedulerSlots, AreSharedByKeyAndInItByAddress) {
  Begin({.slots = 4});
  for (int i = 0; i < 8; ++i) Ask(Client(std::to_string(i), "hog"), Endless(i));
  ExpectAnswer(Client("0", "other"), 100);
  scheduler_.reset();
  // One key of which an address has all, and then more addresses than slots.
  Begin({.slots = 4});
  for (int i = 0; i < 8; ++i) Ask(Client("0", "key"), Endless(i));
  ExpectAnswer(Client("1", "key"), 101);
  for (int i = 8; i < 16; ++i) Ask(Client(std::to_string(i), "key"), Endless(i));
  ExpectAnswer(Client("17", "key"), 102);
  ExpectAnswer(Client("17", "other"), 103);
}

TEST_F(SchedulerSlots, MoreClientsThanSlotsHaveTheseByTurns) {
  Begin({.slots = 2});
  for (int i = 0; i < 6; ++i) Ask(Client(std::to_string(i)), Endless(i));
  ExpectAnswer(Client("other"), 100);
}

// Long texts that are parked again and again, with their pages and without.
TEST_F(SchedulerSlots, ATextThatWasParkedIsTheSame) {
  constexpr int64_t kTokens = 700;
  const std::map<int, Tokens> alone = {
      {0, Alone(0, kTokens)}, {1, Alone(1, kTokens)}, {2, Alone(2, kTokens)}};
  Begin({.slots = 3});
  std::atomic<bool> held = true;  // until others have come
  for (const auto& [number, text] : alone) {
    TextRequest request = Endless(number, kTokens);
    request.on_token = [&, count = 0, next = request.on_token](const NewToken& token) mutable {
      while (++count == 150 && held) std::this_thread::yield();
      return next(token);
    };
    Ask(Client("hog"), std::move(request));
  }
  while (scheduler_->running() < 3) std::this_thread::yield();
  for (int i = 3; i < 9; ++i) Ask(Client(i % 2 == 0 ? "one" : "two"), Endless(i, 290));
  held = false;
  WaitFor(9);
  for (const auto& [number, text] : alone) EXPECT_EQ(texts_[number], text) << number;
  while (scheduler_->running() > 0) std::this_thread::yield();
  EXPECT_EQ(scheduler_->waiting(), 0);
  EXPECT_EQ(scheduler_->used_cache_bytes(), 0);
}

TEST_F(SchedulerSlots, WhoDoesNotReadHasNone) {
  const Tokens alone = Alone(7, 60);
  Begin({.slots = 1});
  std::atomic<int64_t> unread = 0;
  TextRequest request = Endless(7, 60);
  request.on_token = [&, next = request.on_token](const NewToken& token) {
    ++unread;
    return next(token);
  };
  const auto stalled = [&] { return unread > 20; };
  const auto texts = Ask(Client("client"), std::move(request), stalled);
  // Another of the same client, which has no share of its own.
  ExpectAnswer(Client("client"), 100);
  while (scheduler_->running() > 0) std::this_thread::yield();
  EXPECT_EQ(scheduler_->waiting(), 1);
  EXPECT_EQ(unread, 21);
  for (int read = 0; read < 2; ++read) {
    unread = 0;
    while (unread < (read == 0 ? 21 : 18)) std::this_thread::yield();
  }
  WaitFor(2);
  EXPECT_EQ(texts_[7], alone);
  // One that nobody wants any more ends, too.
  const auto other = Ask(Client("client"), Endless(8), [] { return true; });
  while (scheduler_->waiting() == 0) std::this_thread::yield();
  other->Cancel();
  WaitFor(3);
  EXPECT_EQ(scheduler_->waiting(), 0);
}

TEST_F(Schedulers, CancelledTextsEndWhereverTheyAre) {
  Scheduler scheduler(model_, {.slots = 2});
  std::atomic<int> reasons = 0;
  std::vector<TextRequest> requests = Several(10, 290, "");
  for (TextRequest& request : requests) {
    request.on_end = [&, tell = request.on_end](FinishReason reason, const GenerateStats& stats) {
      reasons += reason == FinishReason::kCancelled ? 1 : 0;
      tell(reason, stats);
    };
  }
  const auto texts = scheduler.Submit(Client("client"), std::move(requests));
  while (scheduler.running() < 2) std::this_thread::yield();
  texts->Cancel();
  WaitFor(10);  // and Go
  EXPECT_EQ(reasons, 10);
  while (scheduler.running() > 0) std::this_thread::yield();
  EXPECT_EQ(scheduler.waiting(), 0);
  EXPECT_EQ(scheduler.used_cache_bytes(), 0);
  EXPECT_NO_THROW(texts->ThrowIfFailed());
}

TEST_F(Schedulers, EndingOneEndsItsTexts) {
  {
    Scheduler scheduler(model_, {.slots = 2});
    scheduler.Submit(Client("client"), Several(10, 290, ""));
    Go();
  }
  EXPECT_EQ(ended(), 10u);
}

// A model whose numbers are none fails the texts, and the scheduler goes on.
TEST_F(Schedulers, AModelThatFailsIsToldAndTriedAgain) {
  const Warnings warnings;
  const Tensor wte = model_.weights->params().wte;
  const float before = wte.data<float>()[0];
  Scheduler scheduler(model_, {.slots = 2});
  wte.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  std::vector<TextRequest> bad = Several(3, 5, "");
  for (TextRequest& request : bad) request.prompt = {0};
  const auto texts = scheduler.Submit(Client("client"), std::move(bad));
  WaitFor(3);
  EXPECT_EQ(StatusOf(texts), 500);
  EXPECT_TRUE(Contains(warnings.text(), "not finite"));
  EXPECT_TRUE(Contains(warnings.text(), "the model failed"));
  wte.data<float>()[0] = before;
  const auto good = scheduler.Submit(Client("client"), Several(3, 5, ""));
  WaitFor(6);
  EXPECT_NO_THROW(good->ThrowIfFailed());
}

}  // namespace
}  // namespace folio
