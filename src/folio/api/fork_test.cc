#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "folio/api/batch_trainer.h"
#include "folio/api/model.h"
#include "folio/base/error.h"
#include "folio/io/memory_files.h"
#include "folio/run/training_run.h"
#include "tests/kit/directory.h"
#include "tests/kit/forked.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

// A model and a trainer in a process that is forked while other threads use them.
class Forking : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    if (!kChildrenHaveThreads) GTEST_SKIP() << "not under ThreadSanitizer";
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
    PutFile("text.txt", text);
    Choose(settings_);
    settings_.Set("train.max_steps", "5");
    TrainingRun(settings_, {.data = {At("text.txt").string()}, .out = At("run")}).Train();
    model_ = std::make_shared<const Model>(At("run"));
    ids_ = model_->Prompt("line 7");
  }

  static void Choose(RunSettings& settings) { settings.UsePreset("debug"); }

  // Forks `times` while another thread calls `use` again and again; each child says f().
  template <class Use, class F>
  void WhileUsed(int times, Use&& use, F&& f, std::string_view expected) {
    // The allocator of AddressSanitizer in LLVM 14 stays locked in a child if another thread
    // allocates at the fork; that of the C library does not.
    if (kSanitized) GTEST_SKIP() << "not under sanitizers";
    std::atomic<int> used = 0;
    std::atomic<bool> done = false;
    std::thread other([&] {
      while (!done) {
        use();
        ++used;
      }
    });
    for (int i = 0; i < times; ++i) {
      for (const int before = used; used == before;) std::this_thread::yield();
      EXPECT_EQ(InForkedChild(f), expected) << i;
    }
    done = true;
    other.join();
  }

  RunSettings settings_;
  std::shared_ptr<const Model> model_;
  std::vector<int32_t> ids_;
};

TEST_F(Forking, AChildComputesWithAModelThatAnotherThreadComputedWith) {
  const std::vector<float> logits = model_->Logits(ids_);
  const GenerateOptions greedy{.sampling = {.temperature = 0}, .max_tokens = 20};
  const std::string text = model_->Write(ids_, greedy).text;
  WhileUsed(
      20, [&] { (void)model_->Logits(ids_); },
      [&] {
        for (int i = 0; i < 2; ++i) {
          if (model_->Logits(ids_) != logits) return "other logits";
        }
        return model_->Write(ids_, greedy).text == text ? "same" : "another text";
      },
      "same");
  EXPECT_EQ(model_->Logits(ids_), logits);
}

TEST_F(Forking, AChildOpensModelsWhileAnotherThreadDoes) {
  const std::vector<float> logits = model_->Logits(ids_);
  const auto open = [&] {
    MemoryFiles files;
    files.Add("a", {});
    return Model(At("run")).Logits(ids_);
  };
  WhileUsed(
      20, [&] { (void)open(); }, [&] { return open() == logits ? "same" : "other logits"; },
      "same");
}

TEST_F(Forking, TextsAreLostWhereAStepWasMade) {
  Model::Texts texts(model_, 2), others(model_, 1);
  const GenerateOptions endless{.max_tokens = 1 << 30};
  texts.Add(ids_, endless, {}, {});
  // In the middle of a step for certain: whoever hears the text waits.
  std::atomic<bool> inside = false, done = false;
  texts.Add(ids_, {.max_tokens = 1},
            [&](std::string_view) {
              inside = true;
              while (!done) std::this_thread::yield();
              return true;
            },
            {});
  std::thread other([&] {
    while (!done) texts.Step();
  });
  while (!inside) std::this_thread::yield();
  const std::string said = InForkedChild([&]() -> std::string {
    for (int i = 0; i < 2; ++i) {
      try {
        texts.Step();
        return "a step of what is lost";
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUsage) return "another error";
      }
    }
    int written = 0;  // others go on
    others.Add(ids_, {.max_tokens = 3}, {}, [&](const GeneratedText&) { ++written; });
    while (others.Step()) continue;
    if (written != 1) return "nothing written";
    texts.Cancel(0);
    return "";
  });
  EXPECT_EQ(said, "batch: this process was forked while another thread was using it");
  done = true;
  other.join();
}

TEST_F(Forking, ATrainerIsRefusedWhereAStepWasMadeAndGoesOnWhereNoneWas) {
  RunSettings own;
  Choose(own);
  own.Set("model.vocab_size", std::to_string(model_->config().vocab_size));
  BatchTrainer trainer(own);
  const std::vector<int32_t> batch(static_cast<size_t>(trainer.B() * trainer.T()), 3);
  EXPECT_EQ(InForkedChild([&] { return std::to_string(trainer.Step(batch, batch).step); }), "0");
  std::atomic<bool> inside = false, done = false;
  std::thread other([&] {
    trainer.Step(batch, batch, [&] {
      inside = true;
      while (!done) std::this_thread::yield();
      return false;
    });
  });
  while (!inside) std::this_thread::yield();
  for (const bool saves : {false, true}) {
    EXPECT_EQ(InForkedChild([&] {
                if (saves) {
                  trainer.Save(At("half"));
                } else {
                  trainer.Step(batch, batch);
                }
                return "went on";
              }),
              "trainer: this process was forked while another thread was using it");
  }
  done = true;
  other.join();
  EXPECT_EQ(trainer.Step(batch, batch).step, 1);
}

// Any number of threads may use one trainer: its calls wait for each other.
TEST_F(Forking, CallsOfATrainerWaitForEachOther) {
  RunSettings own;
  Choose(own);
  own.Set("model.vocab_size", std::to_string(model_->config().vocab_size));
  BatchTrainer trainer(own);
  const std::vector<int32_t> batch(static_cast<size_t>(trainer.B() * trainer.T()), 3);
  const auto each = [&](auto&& call) {
    return std::thread([call] {
      for (int i = 0; i < 20; ++i) call(i);
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(each([&](int) { trainer.Step(batch, batch); }));
  threads.push_back(each([&](int) { trainer.Step(batch, batch); }));
  threads.push_back(each([&](int) { EXPECT_GT(trainer.Evaluate(batch, batch), 0); }));
  threads.push_back(
      each([&](int) { EXPECT_FALSE(trainer.Snapshot(nullptr)->Logits(ids_).empty()); }));
  threads.push_back(each([&](int i) {
    if (i % 5 == 0) trainer.Save(At("saved"));
  }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trainer.step(), 40);
  const auto within = [&] {
    trainer.Step(batch, batch, [&] {
      trainer.Step(batch, batch);
      return false;
    });
  };
  EXPECT_THROW(within(), Error);
  EXPECT_EQ(trainer.Step(batch, batch).step, 40);
}

}  // namespace
}  // namespace folio
