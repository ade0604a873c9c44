#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "folio/c/test_api.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

struct Told {
  folio_cancel* cancel = nullptr;
  int64_t steps = 0, evaluations = 0, progress = 0, stop_at = -1;
  bool stop_preparing = false;

  folio_watch Watch() {
    return {.size = sizeof(folio_watch),
            .user = this,
            .cancel = cancel,
            .progress =
                [](void* user, int64_t done, int64_t total) {
                  EXPECT_LE(done, total);
                  ++static_cast<Told*>(user)->progress;
                  return static_cast<Told*>(user)->stop_preparing ? 1 : 0;
                },
            .step =
                [](void* user, int64_t step, double loss, double rate, double speed) {
                  auto& told = *static_cast<Told*>(user);
                  EXPECT_GT(loss, 0);
                  EXPECT_GT(rate, 0);
                  EXPECT_GT(speed, 0);
                  ++told.steps;
                  return step == told.stop_at ? 1 : 0;
                },
            .evaluation =
                [](void* user, int64_t, double train_loss, double held_out_loss) {
                  EXPECT_GT(train_loss, 0);
                  EXPECT_GT(held_out_loss, 0);
                  ++static_cast<Told*>(user)->evaluations;
                  return 0;
                },
            .poll = nullptr};
  }
};

TEST_F(CApi, TrainingTellsStopsAndGoesOnAsIfItHadNot) {
  Told told{.stop_at = 5};
  const folio_watch watch = told.Watch();
  const std::vector<std::pair<std::string, std::string>> settings = {{"preset", "debug"},
                                                                     {"train.max_steps", "20"}};
  const auto json = NewBuffer();
  Handle<folio_train> train =
      Prepare(At("text.txt"), At("stopped"), Options("train", settings).get(), &watch);
  EXPECT_GT(told.progress, 0);
  Do([&](folio_error** e) { return folio_train_run(train.get(), &watch, json.get(), e); });
  EXPECT_EQ(told.steps, 6);
  EXPECT_EQ(told.evaluations, 1);
  EXPECT_EQ(nlohmann::json::parse(TextIn(json))["stopped"], true);
  EXPECT_TRUE(Contains(
      Fails(FOLIO_USAGE,
            [&](folio_error** e) { return folio_train_run(train.get(), nullptr, nullptr, e); }),
      "has been trained"));

  auto resumed = settings;
  resumed.emplace_back("resume", "true");
  folio_train* more = nullptr;
  const auto options = Options("train", resumed);
  Do([&](folio_error** e) {
    return folio_train_new(nullptr, 0, At("stopped").string().c_str(), options.get(), nullptr,
                           &more, e);
  });
  train.reset(more);
  Do([&](folio_error** e) { return folio_train_run(train.get(), nullptr, json.get(), e); });
  EXPECT_EQ(nlohmann::json::parse(TextIn(json))["step"], 20);
  EXPECT_EQ(FilesBelow(At("stopped/last"))["model.safetensors"],
            FilesBelow(At("run/last"))["model.safetensors"]);
}

TEST_F(CApi, TrainingThatIsPolledDropsItsStep) {
  Told told;
  folio_watch watch = told.Watch();
  // Called several times within a step; it stops within the fifth.
  watch.poll = [](void* user) {
    auto& found = *static_cast<Told*>(user);
    if (found.steps == 4) ++found.progress;
    return found.progress > 3 ? 1 : 0;
  };
  watch.progress = nullptr;
  const auto json = NewBuffer();
  const auto options = Options("train", {{"preset", "debug"}, {"train.max_steps", "20"}});
  const Handle<folio_train> train = Prepare(At("text.txt"), At("polled"), options.get(), nullptr);
  Do([&](folio_error** e) { return folio_train_run(train.get(), &watch, json.get(), e); });
  EXPECT_EQ(told.steps, 4);
  EXPECT_EQ(told.progress, 4);
  EXPECT_EQ(nlohmann::json::parse(TextIn(json))["step"], 4);
  EXPECT_EQ(nlohmann::json::parse(TextIn(json))["stopped"], true);
  // A caller of an older version has no such member.
  watch.size = offsetof(folio_watch, poll);
  const Handle<folio_train> other = Prepare(At("text.txt"), At("other"), options.get(), nullptr);
  Do([&](folio_error** e) { return folio_train_run(other.get(), &watch, json.get(), e); });
  EXPECT_EQ(nlohmann::json::parse(TextIn(json))["step"], 20);
}

TEST_F(CApi, NoTextsAreRefused) {
  const auto options = Options("prepare", {{"tokenizer", "char"}});
  const std::string out = At("none").string();
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_data_prepare(nullptr, 0, out.c_str(), options.get(),
                                                         nullptr, e);
                             }),
                       "texts: none"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_tokenizer_train(nullptr, 0, out.c_str(), nullptr,
                                                            nullptr, e);
                             }),
                       "texts: none"));
}

TEST_F(CApi, PreparingThatIsStoppedLeavesNothing) {
  Told told{.stop_preparing = true};
  folio_watch watch = told.Watch();
  const std::string text = At("text.txt").string(), run = At("other").string();
  const char* data[] = {text.c_str()};
  folio_train* train = nullptr;
  const Strings before = Names();
  const auto prepare = [&](folio_error** e) {
    return folio_train_new(data, 1, run.c_str(), nullptr, &watch, &train, e);
  };
  Fails(FOLIO_CANCELLED, prepare);
  EXPECT_EQ(Names(), before);
  const Handle<folio_cancel> cancel(folio_cancel_new());
  folio_cancel_request(cancel.get());
  watch.progress = nullptr;
  watch.cancel = cancel.get();
  Fails(FOLIO_CANCELLED, prepare);
  EXPECT_EQ(Names(), before);
  watch.size = 8;
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE, prepare), "sizeof(folio_watch)"));
  EXPECT_EQ(train, nullptr);
}

// Calls in any order succeed or are refused.

TEST_F(CApi, ATokenizerAndADataSetAreMade) {
  const std::string text = At("text.txt").string(), tokenizer = At("bpe").string(),
                    data = At("data").string();
  const char* texts[] = {text.c_str()};
  const auto bpe = Options("tokenizer", {{"vocab_size", "300"}, {"special_token", "<|end|>"}});
  auto watch = Sized<folio_watch>();
  int calls = 0;
  watch.user = &calls;
  watch.progress = [](void* user, int64_t, int64_t) { return ++*static_cast<int*>(user) * 0; };
  Do([&](folio_error** e) {
    return folio_tokenizer_train(texts, 1, tokenizer.c_str(), bpe.get(), &watch, e);
  });
  EXPECT_GT(calls, 0);
  const auto prepare = Options("prepare", {{"tokenizer", tokenizer}, {"val_fraction", "0.2"}});
  watch.progress = [](void*, int64_t, int64_t) { return 1; };
  EXPECT_TRUE(Contains(Fails(FOLIO_CANCELLED,
                             [&](folio_error** e) {
                               return folio_data_prepare(texts, 1, data.c_str(), prepare.get(),
                                                         &watch, e);
                             }),
                       "stopped"));
  EXPECT_FALSE(std::filesystem::exists(data));
  Do([&](folio_error** e) {
    return folio_data_prepare(texts, 1, data.c_str(), prepare.get(), nullptr, e);
  });
  EXPECT_TRUE(std::filesystem::exists(At("data") / "val.bin"));
  folio_tokenizer* made = nullptr;
  Do([&](folio_error** e) { return folio_tokenizer_open(data.c_str(), &made, e); });
  const Handle<folio_tokenizer> opened(made);
  const auto json = NewBuffer();
  Do([&](folio_error** e) { return folio_tokenizer_info(opened.get(), json.get(), e); });
  const auto info = nlohmann::json::parse(TextIn(json));
  EXPECT_EQ(info["special_tokens"][0]["text"], "<|end|>");
}

TEST_F(CApi, TrainsStepByStep) {
  const auto options = Options("train", {{"preset", "debug"},
                                         {"model.vocab_size", "32"},
                                         {"train.batch_size", "2"},
                                         {"train.context", "8"},
                                         {"train.warmup_steps", "0"},
                                         {"train.learning_rate", "0.05"},
                                         {"train.max_steps", "100"}});
  folio_trainer* made = nullptr;
  Do([&](folio_error** e) { return folio_trainer_new(options.get(), nullptr, &made, e); });
  const Handle<folio_trainer> trainer(made);
  Ids inputs(16), targets(16);
  for (size_t i = 0; i < 16; ++i) {
    inputs[i] = static_cast<int32_t>(i);
    targets[i] = static_cast<int32_t>((i + 1) % 16);
  }
  const auto step = [&](const folio_cancel* cancel, folio_step* out, folio_error** e) {
    return folio_trainer_step(trainer.get(), inputs.data(), targets.data(), 16, cancel, out, e);
  };
  auto first = Sized<folio_step>(), last = Sized<folio_step>();
  Do([&](folio_error** e) { return step(nullptr, &first, e); });
  for (int i = 1; i < 30; ++i) Do([&](folio_error** e) { return step(nullptr, &last, e); });
  EXPECT_EQ(last.step, 29);
  EXPECT_LT(last.loss, first.loss / 2);
  double loss = 0;
  Do([&](folio_error** e) {
    return folio_trainer_evaluate(trainer.get(), inputs.data(), targets.data(), 16, nullptr, &loss,
                                  e);
  });
  EXPECT_LT(loss, last.loss);

  // The norm of the gradient equals that of its parts.
  const auto json = NewBuffer();
  Do([&](folio_error** e) { return folio_trainer_info(trainer.get(), json.get(), e); });
  double sum = 0;
  const auto info = nlohmann::json::parse(TextIn(json));
  for (const auto& name : info["tensors"]) {
    auto gradient = Sized<folio_tensor>();
    Do([&](folio_error** e) {
      return folio_trainer_tensor(trainer.get(), name.get<std::string>().c_str(), 1, &gradient, e);
    });
    const auto* numbers = static_cast<const float*>(gradient.data);
    for (uint64_t i = 0; i < gradient.bytes / 4; ++i) sum += double(numbers[i]) * numbers[i];
  }
  EXPECT_NEAR(std::sqrt(sum), last.gradient_norm, 1e-5 * last.gradient_norm);

  // The saved directory is a model, and so is the copy.
  Do([&](folio_error** e) {
    return folio_trainer_save(trainer.get(), At("saved").string().c_str(), nullptr, e);
  });
  folio_model* copy = nullptr;
  Do([&](folio_error** e) { return folio_trainer_model(trainer.get(), nullptr, &copy, e); });
  const Handle<folio_model> model(copy);
  const Ids some(inputs.begin(), inputs.begin() + 8);
  EXPECT_EQ(LogitsOf(model.get(), some), LogitsOf(Open(At("saved")).get(), some));

  inputs[3] = 32;
  EXPECT_TRUE(Contains(
      Fails(FOLIO_USAGE, [&](folio_error** e) { return step(nullptr, nullptr, e); }), "inputs[3]"));
  targets.assign(16, -1);
  inputs[3] = 0;
  EXPECT_TRUE(Contains(
      Fails(FOLIO_USAGE, [&](folio_error** e) { return step(nullptr, nullptr, e); }), "target"));
}

}  // namespace
}  // namespace folio
