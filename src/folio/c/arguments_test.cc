#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "folio/c/test_api.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

TEST(CHandles, OfNothingAreEmpty) {
  EXPECT_EQ(folio_buffer_size(nullptr), 0u);
  EXPECT_STREQ(static_cast<const char*>(folio_buffer_data(nullptr)), "");
  EXPECT_STREQ(folio_error_message(nullptr), "");
  EXPECT_STREQ(folio_files_path(nullptr), "");
  EXPECT_EQ(folio_model_vocab_size(nullptr), 0);
  EXPECT_EQ(folio_model_width(nullptr), 0);
  EXPECT_EQ(folio_model_context(nullptr), 0);
  EXPECT_EQ(folio_model_tokenizer(nullptr), nullptr);
}

TEST_F(CApi, WrongArgumentsAreErrorsAndTheModelGoesOn) {
  const Ids ids = Prompt("line");
  const Ids wrong = {0, 12345}, negative = {-1}, many(1000, 0);
  const auto buffer = NewBuffer();
  const auto greedy = Options("generate", {{"temperature", "0"}, {"max_tokens", "5"}});
  const auto train = Options("train", {});
  const std::string before = Write(ids, greedy.get());
  const auto logits = [&](const Ids& tokens, size_t first) {
    return Fails(FOLIO_USAGE, [&](folio_error** e) {
      return folio_logits(model_.get(), tokens.data(), tokens.size(), first, nullptr, buffer.get(),
                          e);
    });
  };
  EXPECT_TRUE(Contains(logits(wrong, 0), "12345"));
  EXPECT_TRUE(Contains(logits(negative, 0), "-1"));
  EXPECT_TRUE(Contains(logits(many, 0), "1,000"));
  EXPECT_TRUE(Contains(logits(ids, ids.size()), "first"));
  EXPECT_TRUE(Contains(logits({}, 0), "ids: none"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_generate(model_.get(), ids.data(), ids.size(),
                                                     train.get(), nullptr, nullptr, nullptr,
                                                     nullptr, nullptr, e);
                             }),
                       "options: wrong kind", "generate", "train"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_embed(model_.get(), ids.data(), ids.size(), "max",
                                                  nullptr, buffer.get(), e);
                             }),
                       "mean, last or all"));
  for (const int64_t layer : {-1, 0, 2}) {
    Fails(FOLIO_USAGE, [&](folio_error** e) {
      return folio_attention(model_.get(), ids.data(), ids.size(), layer, layer == 0 ? 2 : 0,
                             buffer.get(), e);
    });
  }
  const char* text = "hello";
  for (const auto& [role, says] : {std::pair{"owner", "system, user, assistant or tool"},
                                   std::pair{"user", "not a model for conversations"}}) {
    EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                               [&, role = role](folio_error** e) {
                                 return folio_model_chat(model_.get(), &role, &text, 1,
                                                         buffer.get(), e);
                               }),
                         says));
  }
  Fails(FOLIO_USAGE, [&](folio_error** e) {
    folio_batch* none = nullptr;
    return folio_batch_new(model_.get(), 0, &none, e);
  });
  Fails(FOLIO_USAGE, [&](folio_error** e) { return folio_set_threads(0, e); });
  Fails(FOLIO_INPUT, [&](folio_error** e) {
    folio_model* none = nullptr;
    return folio_model_open(At("nothing").string().c_str(), nullptr, nullptr, &none, e);
  });
  EXPECT_EQ(Write(ids, greedy.get()), before);
}

TEST_F(CApi, RandomCallsAreAnsweredOrRefused) {
  std::mt19937 random(1);
  const auto any = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const char* names[] = {"temperature", "top_k",     "top_p", "seed", "max_tokens",
                         "stop",        "when_full", "min_p", "x"};
  const char* values[] = {"0", "1", "0.5", "-1", "1e300", "nan", "slide", "stop", "", "17"};
  const auto buffer = NewBuffer();
  folio_batch* made = nullptr;
  Do([&](folio_error** e) { return folio_batch_new(model_.get(), 2, &made, e); });
  const Handle<folio_batch> batch(made);
  const auto of_trainer = Options("train", {{"preset", "debug"},
                                            {"model.vocab_size", "25"},
                                            {"train.batch_size", "1"},
                                            {"train.context", "4"}});
  folio_trainer* training = nullptr;
  Do([&](folio_error** e) { return folio_trainer_new(of_trainer.get(), nullptr, &training, e); });
  const Handle<folio_trainer> trainer(training);
  const char* tensors[] = {"transformer.wte.weight", "lm_head.weight", "", "x"};
  int answered = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    Ids ids(static_cast<size_t>(any(0, 12)));
    for (int32_t& id : ids) id = static_cast<int32_t>(any(any(0, 9) == 0 ? -2 : 0, 25));
    const Handle<folio_options> options(folio_options_new("generate"));
    folio_options_set(options.get(), "max_tokens", "9", nullptr);
    for (int64_t k = any(0, 3); k > 0; --k) {
      folio_options_set(options.get(), names[any(0, 8)], values[any(0, 9)], nullptr);
    }
    const auto first = static_cast<size_t>(any(0, 12));
    int32_t more = 0;
    folio_status status = FOLIO_OK;
    auto tensor = Sized<folio_tensor>();
    double loss = 0;
    switch (any(0, 10)) {
      case 0:
        status = folio_generate(model_.get(), ids.data(), ids.size(), options.get(), nullptr,
                                nullptr, nullptr, buffer.get(), nullptr, nullptr);
        break;
      case 1:
        status = folio_logits(model_.get(), ids.data(), ids.size(), first, nullptr, buffer.get(),
                              nullptr);
        break;
      case 2:
        status = folio_score(model_.get(), ids.data(), ids.size(), first, nullptr, buffer.get(),
                             nullptr);
        break;
      case 3:
        status = folio_attention(model_.get(), ids.data(), ids.size(), any(-1, 3), any(-1, 3),
                                 buffer.get(), nullptr);
        break;
      case 4:
        status = folio_batch_add(batch.get(), ids.data(), ids.size(), options.get(), nullptr,
                                 nullptr, nullptr, nullptr, nullptr);
        break;
      case 5:
        status = folio_batch_cancel(batch.get(), static_cast<uint64_t>(any(0, 50)), nullptr);
        break;
      case 6:
        status = folio_trainer_step(trainer.get(), ids.data(), ids.data(), ids.size(), nullptr,
                                    nullptr, nullptr);
        break;
      case 7:
        status = folio_trainer_evaluate(trainer.get(), ids.data(), ids.data(), ids.size() / 4 * 4,
                                        nullptr, &loss, nullptr);
        break;
      case 8:
        status = folio_trainer_tensor(trainer.get(), tensors[any(0, 3)],
                                      static_cast<int32_t>(any(0, 1)), &tensor, nullptr);
        break;
      case 9:
        status = folio_trace(model_.get(), ids.data(), ids.size(), any(0, 1) == 0 ? "mlp" : "qkw",
                             any(-1, 3), buffer.get(), nullptr);
        break;
      default:
        status = folio_batch_step(batch.get(), &more, nullptr);
    }
    EXPECT_TRUE(status == FOLIO_OK || status == FOLIO_USAGE || status == FOLIO_INPUT) << status;
    ++(status == FOLIO_OK ? answered : refused);
  }
  EXPECT_GT(answered, 50);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace folio
