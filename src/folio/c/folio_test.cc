#include "folio/c/folio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/log.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

struct Freed {
  void operator()(folio_error* of) const { folio_error_free(of); }
  void operator()(folio_buffer* of) const { folio_buffer_free(of); }
  void operator()(folio_options* of) const { folio_options_free(of); }
  void operator()(folio_cancel* of) const { folio_cancel_free(of); }
  void operator()(folio_tokenizer* of) const { folio_tokenizer_free(of); }
  void operator()(folio_model* of) const { folio_model_free(of); }
  void operator()(folio_batch* of) const { folio_batch_free(of); }
  void operator()(folio_train* of) const { folio_train_free(of); }
  void operator()(folio_trainer* of) const { folio_trainer_free(of); }
  void operator()(folio_files* of) const { folio_files_free(of); }
};
template <class T>
using Handle = std::unique_ptr<T, Freed>;
using Ids = std::vector<int32_t>;

template <class T>
T Sized() {
  T of{};
  of.size = sizeof(T);
  return of;
}

// Fails the test where a call fails, and says why.
void Check(folio_status status, folio_error* error) {
  const Handle<folio_error> owned(error);
  ASSERT_EQ(status, FOLIO_OK) << folio_error_message(error) << ": " << folio_error_cause(error);
}
template <class F>
void Do(F&& call) {
  folio_error* error = nullptr;
  const folio_status status = call(&error);
  Check(status, error);
}

// The text of an error of this status.
template <class F>
std::string Fails(folio_status expected, F&& call) {
  folio_error* error = nullptr;
  const folio_status status = call(&error);
  const Handle<folio_error> owned(error);
  EXPECT_EQ(status, expected) << folio_error_message(error);
  if (error == nullptr) return {};
  return std::string(folio_error_message(error)) + ": " + folio_error_cause(error) + ": " +
         folio_error_help(error);
}

template <class T>
std::vector<T> Numbers(const Handle<folio_buffer>& buffer) {
  std::vector<T> numbers(folio_buffer_size(buffer.get()) / sizeof(T));
  std::memcpy(numbers.data(), folio_buffer_data(buffer.get()), numbers.size() * sizeof(T));
  return numbers;
}
std::string TextIn(const Handle<folio_buffer>& buffer) {
  return static_cast<const char*>(folio_buffer_data(buffer.get()));
}
Handle<folio_buffer> NewBuffer() {
  return Handle<folio_buffer>(folio_buffer_new());
}

Handle<folio_options> Options(const char* of,
                              const std::vector<std::pair<std::string, std::string>>& values) {
  Handle<folio_options> options(folio_options_new(of));
  for (const auto& one : values) {
    Do([&](folio_error** e) {
      return folio_options_set(options.get(), one.first.c_str(), one.second.c_str(), e);
    });
  }
  return options;
}

Handle<folio_train> Prepare(const std::filesystem::path& text, const std::filesystem::path& run,
                            const folio_options* options, const folio_watch* watch) {
  folio_train* train = nullptr;
  const std::string from = text.string();
  const char* data[] = {from.c_str()};
  Do([&](folio_error** e) {
    return folio_train_new(data, 1, run.string().c_str(), options, watch, &train, e);
  });
  return Handle<folio_train>(train);
}

std::string SomeText() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * 7 % 100) + " of a text.\n";
  return text;
}

Handle<folio_model> Open(const std::filesystem::path& path,
                         const folio_options* options = nullptr) {
  folio_model* model = nullptr;
  Do([&](folio_error** e) {
    return folio_model_open(path.string().c_str(), options, nullptr, &model, e);
  });
  return Handle<folio_model>(model);
}

folio_watch Watching(const folio_cancel* cancel) {
  folio_watch watch{};
  watch.size = sizeof(watch);
  watch.cancel = cancel;
  return watch;
}

// Trains a model of a second in a directory, which stays for all tests.
class CApi : public InTemporaryDirectory {
 protected:
  void SetUp() override {
    PutFile("text.txt", SomeText());
    const auto options = Options("train", {{"preset", "debug"}, {"train.max_steps", "20"}});
    const Handle<folio_train> train = Prepare(At("text.txt"), At("run"), options.get(), nullptr);
    Do([&](folio_error** e) { return folio_train_run(train.get(), nullptr, nullptr, e); });
    model_ = Open(At("run"));
  }

  Ids Prompt(std::string_view text) {
    const auto ids = NewBuffer();
    Do([&](folio_error** e) {
      return folio_model_prompt(model_.get(), text.data(), text.size(), ids.get(), e);
    });
    return Numbers<int32_t>(ids);
  }

  std::string Write(const Ids& prompt, const folio_options* options,
                    const folio_cancel* cancel = nullptr, int32_t* end = nullptr) {
    const auto whole = NewBuffer();
    const folio_watch watch = Watching(cancel);
    Do([&](folio_error** e) {
      return folio_generate(model_.get(), prompt.data(), prompt.size(), options, nullptr, nullptr,
                            &watch, whole.get(), end, e);
    });
    return TextIn(whole);
  }

  Handle<folio_model> model_;
};

TEST(CVersion, AndStatusesHaveNames) {
  EXPECT_GT(folio_version(), 0u);
  EXPECT_STREQ(folio_status_name(FOLIO_CANCELLED), "cancelled");
  EXPECT_STREQ(folio_status_name(FOLIO_INTERNAL), "internal");
  EXPECT_STREQ(folio_status_name(8), "unknown");
  EXPECT_STREQ(folio_status_name(-1), "unknown");
}

TEST(CTokenizer, EncodesAndDecodesAsTheLibraryDoes) {
  folio_tokenizer* bytes = nullptr;
  Do([&](folio_error** e) { return folio_tokenizer_open("bytes", &bytes, e); });
  const Handle<folio_tokenizer> owned(bytes);
  const auto ids = NewBuffer(), text = NewBuffer(), offsets = NewBuffer();
  const std::string with_zero("a\0b", 3);
  Do([&](folio_error** e) {
    return folio_tokenizer_encode(bytes, with_zero.data(), 3, FOLIO_SPECIAL_ORDINARY, nullptr,
                                  ids.get(), e);
  });
  EXPECT_EQ(Numbers<int32_t>(ids), (Ids{'a', 0, 'b'}));
  const Ids all = Numbers<int32_t>(ids);
  Do([&](folio_error** e) { return folio_tokenizer_decode(bytes, all.data(), 3, text.get(), e); });
  EXPECT_EQ(folio_buffer_size(text.get()), 3u);
  EXPECT_EQ(std::memcmp(folio_buffer_data(text.get()), "a\0b", 4), 0);

  const char* texts[] = {"xy", "", "z"};
  const size_t lengths[] = {2, 0, 1};
  Do([&](folio_error** e) {
    return folio_tokenizer_encode_batch(bytes, texts, lengths, 3, nullptr, ids.get(), offsets.get(),
                                        e);
  });
  EXPECT_EQ(Numbers<int32_t>(ids), (Ids{'x', 'y', 'z'}));
  EXPECT_EQ(Numbers<int64_t>(offsets), (std::vector<int64_t>{0, 2, 2, 3}));

  const char* token = nullptr;
  size_t length = 0;
  Do([&](folio_error** e) { return folio_tokenizer_token(bytes, 'q', &token, &length, e); });
  EXPECT_EQ(std::string(token, length), "q");
  Do([&](folio_error** e) { return folio_tokenizer_info(bytes, text.get(), e); });
  EXPECT_EQ(nlohmann::json::parse(TextIn(text))["vocab_size"], 257);

  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               folio_tokenizer* none = nullptr;
                               return folio_tokenizer_open("gpt3", &none, e);
                             }),
                       "no tokenizer 'gpt3'", "did you mean gpt2?"));
  EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                             [&](folio_error** e) {
                               return folio_tokenizer_token(bytes, 1000, &token, &length, e);
                             }),
                       "1000"));
}

TEST(COptions, AreRefusedByName) {
  const Handle<folio_options> options(folio_options_new("generate"));
  const auto refused = [&](const char* name, const char* value) {
    return Fails(FOLIO_USAGE,
                 [&](folio_error** e) { return folio_options_set(options.get(), name, value, e); });
  };
  EXPECT_TRUE(Contains(refused("temprature", "1"), "no option 'temprature'", "temperature"));
  EXPECT_TRUE(Contains(refused("temperature", "hot"), "temperature", "hot"));
  EXPECT_TRUE(Contains(refused("top_p", "2"), "top_p"));
  EXPECT_TRUE(Contains(refused("stop", ""), "stop"));
  EXPECT_EQ(folio_options_new("paint"), nullptr);
  const Handle<folio_options> train(folio_options_new("train"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_options_set(train.get(), "train.max_step", "1", e);
                             }),
                       "train.max_steps"));

  const auto json = NewBuffer();
  for (const char* of : {"open", "generate", "train"}) {
    Do([&](folio_error** e) { return folio_options_describe(of, json.get(), e); });
    const auto all = nlohmann::json::parse(TextIn(json));
    EXPECT_GT(all.size(), 2u);
    const Handle<folio_options> same(folio_options_new(of));
    for (const auto& one : all) {  // each is what it is unless something else is said
      if (one["value"] == "") continue;
      Do([&](folio_error** e) {
        return folio_options_set(same.get(), one["name"].get<std::string>().c_str(),
                                 one["value"].get<std::string>().c_str(), e);
      });
    }
  }
}

TEST_F(CApi, ANullIsRefusedWhereverItStands) {
  const auto refused = [](auto&& call) {
    EXPECT_TRUE(Contains(Fails(FOLIO_USAGE, call), "NULL"));
    EXPECT_EQ(call(nullptr), FOLIO_USAGE);  // who wants no error gets none
  };
  const auto buffer = NewBuffer();
  const Ids ids = Prompt("line");
  const size_t n = ids.size();
  folio_model* m = model_.get();
  const folio_tokenizer* t = folio_model_tokenizer(m);
  refused([&](folio_error** e) { return folio_tokenizer_open(nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_tokenizer_open("bytes", nullptr, e); });
  refused([&](folio_error** e) {
    return folio_tokenizer_encode(t, nullptr, 3, 0, nullptr, buffer.get(), e);
  });
  refused(
      [&](folio_error** e) { return folio_tokenizer_encode(t, "", 0, 0, nullptr, nullptr, e); });
  refused([&](folio_error** e) {
    return folio_tokenizer_encode_batch(t, nullptr, nullptr, 1, nullptr, buffer.get(), buffer.get(),
                                        e);
  });
  refused([&](folio_error** e) { return folio_tokenizer_decode(t, nullptr, 1, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_tokenizer_token(t, 0, nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_tokenizer_info(nullptr, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_tokenizer_save(t, nullptr, e); });
  refused([&](folio_error** e) { return folio_model_open(nullptr, nullptr, nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_model_info(m, nullptr, e); });
  refused([&](folio_error** e) { return folio_model_prompt(nullptr, "", 0, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_model_chat(m, nullptr, nullptr, 0, nullptr, e); });
  refused([&](folio_error** e) {
    return folio_generate(m, nullptr, 1, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, e);
  });
  refused([&](folio_error** e) { return folio_batch_new(m, 1, nullptr, e); });
  refused([&](folio_error** e) {
    return folio_batch_add(nullptr, ids.data(), n, nullptr, nullptr, nullptr, nullptr, nullptr, e);
  });
  refused([&](folio_error** e) { return folio_batch_step(nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_batch_cancel(nullptr, 0, e); });
  refused(
      [&](folio_error** e) { return folio_logits(m, nullptr, n, 0, nullptr, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_score(m, ids.data(), n, 1, nullptr, nullptr, e); });
  refused([&](folio_error** e) {
    return folio_embed(m, ids.data(), n, nullptr, nullptr, buffer.get(), e);
  });
  refused([&](folio_error** e) {
    return folio_attention(nullptr, ids.data(), n, 0, 0, buffer.get(), e);
  });
  refused([&](folio_error** e) {
    return folio_train_new(nullptr, 0, nullptr, nullptr, nullptr, nullptr, e);
  });
  refused([&](folio_error** e) { return folio_train_run(nullptr, nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_files_add(nullptr, "a", "b", 1, e); });
  refused([&](folio_error** e) { return folio_files_read(nullptr, "a", 1, nullptr, nullptr, e); });
  refused(
      [&](folio_error** e) { return folio_tokenizer_train(nullptr, 1, "x", nullptr, nullptr, e); });
  refused(
      [&](folio_error** e) { return folio_data_prepare(nullptr, 1, "x", nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_model_tensor(m, nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_model_save(m, "x", nullptr, nullptr, e); });
  refused(
      [&](folio_error** e) { return folio_trace(m, ids.data(), n, nullptr, 0, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_trainer_new(nullptr, nullptr, nullptr, e); });
  refused([&](folio_error** e) {
    return folio_trainer_step(nullptr, ids.data(), ids.data(), n, nullptr, nullptr, e);
  });
  refused([&](folio_error** e) { return folio_trainer_info(nullptr, buffer.get(), e); });
  refused([&](folio_error** e) { return folio_trainer_save(nullptr, "x", nullptr, e); });
  refused([&](folio_error** e) { return folio_trainer_resume(nullptr, "x", e); });
  refused([&](folio_error** e) { return folio_trainer_tensor(nullptr, "x", 0, nullptr, e); });
  refused([&](folio_error** e) { return folio_trainer_model(nullptr, nullptr, nullptr, e); });
  refused([&](folio_error** e) { return folio_options_set(nullptr, "a", "b", e); });
  refused([&](folio_error** e) { return folio_options_describe(nullptr, buffer.get(), e); });

  folio_error_free(nullptr);
  folio_buffer_free(nullptr);
  folio_options_free(nullptr);
  folio_cancel_free(nullptr);
  folio_tokenizer_free(nullptr);
  folio_model_free(nullptr);
  folio_batch_free(nullptr);
  folio_train_free(nullptr);
  folio_trainer_free(nullptr);
  folio_files_free(nullptr);
  EXPECT_EQ(folio_buffer_size(nullptr), 0u);
  EXPECT_EQ(folio_model_vocab_size(nullptr), 0);
}

TEST_F(CApi, WritesWhatTheLibraryWrites) {
  const auto options = Options("generate", {{"seed", "7"}, {"max_tokens", "30"}});
  const Ids prompt = Prompt("line ");
  std::string parts;
  const auto whole = NewBuffer();
  int32_t end = -1;
  Do([&](folio_error** e) {
    return folio_generate(
        model_.get(), prompt.data(), prompt.size(), options.get(),
        [](void* user, const char* text, size_t length) {
          static_cast<std::string*>(user)->append(text, length);
          return 0;
        },
        &parts, nullptr, whole.get(), &end, e);
  });
  const OpenedModel model = OpenModel(At("run"), {.matrices = {.as_stored = true}});
  Generator generator(*model.backend, *model.weights);
  const GeneratedText expected =
      GenerateText(generator, *model.tokenizer, prompt, {.sampling = {.seed = 7}, .max_tokens = 30},
                   0, [](auto) { return true; });
  EXPECT_EQ(TextIn(whole), expected.text);
  EXPECT_EQ(parts, expected.text);
  EXPECT_EQ(end, FOLIO_END_LENGTH);
  EXPECT_EQ(Write(prompt, options.get()), expected.text);  // and again

  // A text that ends one is not shown.
  const std::string stop = expected.text.substr(10, 2);
  const auto stopped = Options("generate", {{"seed", "7"}, {"max_tokens", "30"}, {"stop", stop}});
  EXPECT_EQ(Write(prompt, stopped.get(), nullptr, &end),
            expected.text.substr(0, expected.text.find(stop)));
  EXPECT_EQ(end, FOLIO_END_STOP);
}

TEST_F(CApi, WritesTextsTogetherAsAlone) {
  struct Text {
    std::string text;
    int32_t end = -1;
  };
  std::vector<Text> texts(5);
  folio_batch* made = nullptr;
  Do([&](folio_error** e) { return folio_batch_new(model_.get(), 3, &made, e); });
  const Handle<folio_batch> batch(made);
  model_.reset();  // the batch holds what it needs
  model_ = Open(At("run"));
  const auto greedy = Options("generate", {{"temperature", "0"}, {"max_tokens", "12"}});
  std::vector<Ids> prompts;
  for (const char* text : {"line", "of a", "text", "9", "l"}) prompts.push_back(Prompt(text));
  uint64_t last = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    Do([&](folio_error** e) {
      return folio_batch_add(
          batch.get(), prompts[i].data(), prompts[i].size(), greedy.get(),
          [](void* user, const char* text, size_t length) {
            static_cast<Text*>(user)->text.append(text, length);
            return 0;
          },
          [](void* user, int32_t end) { static_cast<Text*>(user)->end = end; }, &texts[i], &last,
          e);
    });
  }
  Do([&](folio_error** e) { return folio_batch_cancel(batch.get(), last, e); });
  int32_t more = 1;
  while (more != 0) {
    Do([&](folio_error** e) { return folio_batch_step(batch.get(), &more, e); });
  }
  for (size_t i = 0; i + 1 < texts.size(); ++i) {
    EXPECT_EQ(texts[i].text, Write(prompts[i], greedy.get())) << i;
    EXPECT_EQ(texts[i].end, FOLIO_END_LENGTH);
  }
  EXPECT_EQ(texts.back().end, FOLIO_END_CANCELLED);
}

TEST_F(CApi, ScoresAndEmbeddingsAreThoseOfLogits) {
  const Ids ids = Prompt("line 7");
  const auto n = ids.size();
  const auto V = static_cast<size_t>(folio_model_vocab_size(model_.get()));
  const auto C = static_cast<size_t>(folio_model_width(model_.get()));
  const auto buffer = NewBuffer();
  const auto logits = [&](size_t first) {
    Do([&](folio_error** e) {
      return folio_logits(model_.get(), ids.data(), n, first, nullptr, buffer.get(), e);
    });
    return Numbers<float>(buffer);
  };
  const std::vector<float> all = logits(0), rest = logits(n - 2);
  ASSERT_EQ(all.size(), n * V);
  EXPECT_EQ(rest, std::vector<float>(all.end() - static_cast<ptrdiff_t>(2 * V), all.end()));

  Do([&](folio_error** e) {
    return folio_score(model_.get(), ids.data(), n, 2, nullptr, buffer.get(), e);
  });
  const std::vector<double> scores = Numbers<double>(buffer);
  ASSERT_EQ(scores.size(), n - 2);
  for (size_t i = 2; i < n; ++i) {
    const float* row = all.data() + (i - 1) * V;
    double sum = 0;
    for (size_t v = 0; v < V; ++v) sum += std::exp(static_cast<double>(row[v]));
    EXPECT_NEAR(scores[i - 2], static_cast<double>(row[ids[i]]) - std::log(sum), 1e-6);
  }

  const auto embedding = [&](const char* pooling) {
    Do([&](folio_error** e) {
      return folio_embed(model_.get(), ids.data(), n, pooling, nullptr, buffer.get(), e);
    });
    return Numbers<float>(buffer);
  };
  const std::vector<float> rows = embedding("all"), mean = embedding("mean");
  ASSERT_EQ(rows.size(), n * C);
  EXPECT_EQ(embedding("last"),
            std::vector<float>(rows.end() - static_cast<ptrdiff_t>(C), rows.end()));
  for (size_t c = 0; c < C; ++c) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<double>(rows[i * C + c]);
    EXPECT_NEAR(mean[c], sum / static_cast<double>(n), 1e-6);
  }

  Do([&](folio_error** e) {
    return folio_attention(model_.get(), ids.data(), n, 1, 1, buffer.get(), e);
  });
  const std::vector<float> weights = Numbers<float>(buffer);
  ASSERT_EQ(weights.size(), n * n);
  for (size_t q = 0; q < n; ++q) {
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += static_cast<double>(weights[q * n + k]);
    EXPECT_NEAR(sum, 1, 1e-6);
    if (q + 1 < n) {
      EXPECT_EQ(weights[q * n + q + 1], 0);
    }
  }
}

TEST_F(CApi, WrongArgumentsAreErrorsAndTheModelGoesOn) {
  const Ids ids = Prompt("line");
  const Ids wrong = {0, 12345}, negative = {-1}, many(1000, 0);
  const auto buffer = NewBuffer();
  const auto greedy = Options("generate", {{"temperature", "0"}, {"max_tokens", "5"}});
  const auto train = Options("train", {});
  const std::string before = Write(ids, greedy.get());
  const auto logits = [&](const Ids& of, size_t first) {
    return Fails(FOLIO_USAGE, [&](folio_error** e) {
      return folio_logits(model_.get(), of.data(), of.size(), first, nullptr, buffer.get(), e);
    });
  };
  EXPECT_TRUE(Contains(logits(wrong, 0), "12345"));
  EXPECT_TRUE(Contains(logits(negative, 0), "-1"));
  EXPECT_TRUE(Contains(logits(many, 0), "1,000"));
  EXPECT_TRUE(Contains(logits(ids, ids.size()), "first"));
  EXPECT_TRUE(Contains(logits({}, 0), "first"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_generate(model_.get(), ids.data(), ids.size(),
                                                     train.get(), nullptr, nullptr, nullptr,
                                                     nullptr, nullptr, e);
                             }),
                       "of another kind", "generate", "train"));
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
  for (const auto& [role, says] : {std::pair{"owner", "system, user or assistant"},
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

TEST_F(CApi, WhatIsCancelledStops) {
  const Handle<folio_cancel> cancel(folio_cancel_new());
  const Ids ids = Prompt("line");
  const auto buffer = NewBuffer();
  const auto endless = Options("generate", {{"max_tokens", "1000000000"}});
  folio_cancel_request(cancel.get());
  int32_t end = -1;
  Write(ids, endless.get(), cancel.get(), &end);
  EXPECT_EQ(end, FOLIO_END_CANCELLED);
  Fails(FOLIO_CANCELLED, [&](folio_error** e) {
    const folio_watch watch = Watching(cancel.get());
    return folio_logits(model_.get(), ids.data(), ids.size(), 0, &watch, buffer.get(), e);
  });
  folio_cancel_reset(cancel.get());
  // Another thread asks, and the callback may.
  std::thread other([&] { folio_cancel_request(cancel.get()); });
  Write(ids, endless.get(), cancel.get(), &end);
  EXPECT_EQ(end, FOLIO_END_CANCELLED);
  other.join();
  Do([&](folio_error** e) {
    return folio_generate(
        model_.get(), ids.data(), ids.size(), endless.get(),
        [](void*, const char*, size_t) { return 1; }, nullptr, nullptr, nullptr, &end, e);
  });
  EXPECT_EQ(end, FOLIO_END_CANCELLED);
}

TEST_F(CApi, ReadingATextTellsHowFarItIs) {
  struct Heard {
    std::vector<std::pair<int64_t, int64_t>> all = {};
    size_t stop_at = 0;
  } heard;
  folio_watch watch = Watching(nullptr);
  watch.user = &heard;
  watch.progress = [](void* user, int64_t done, int64_t total) {
    auto& of = *static_cast<Heard*>(user);
    of.all.emplace_back(done, total);
    return of.all.size() == of.stop_at ? 1 : 0;
  };
  const auto buffer = NewBuffer();
  const Ids ids(static_cast<size_t>(folio_model_context(model_.get())), Prompt("l")[0]);
  Do([&](folio_error** e) {
    return folio_score(model_.get(), ids.data(), ids.size(), 1, &watch, buffer.get(), e);
  });
  ASSERT_GE(heard.all.size(), 1u);
  for (const auto& [done, total] : heard.all) EXPECT_LE(done, total);
  EXPECT_EQ(heard.all.back().second, static_cast<int64_t>(ids.size()));

  std::string text;
  while (text.size() < size_t{5} << 20) text += "a line\n";
  heard = {};
  const folio_tokenizer* tokenizer = folio_model_tokenizer(model_.get());
  const auto encode = [&](folio_error** e) {
    return folio_tokenizer_encode(tokenizer, text.data(), text.size(), FOLIO_SPECIAL_ORDINARY,
                                  &watch, buffer.get(), e);
  };
  Do(encode);
  EXPECT_GE(heard.all.size(), 2u);
  EXPECT_EQ(heard.all.back().second, static_cast<int64_t>(text.size()));
  heard = {.stop_at = 1};
  Fails(FOLIO_CANCELLED, encode);
  EXPECT_EQ(folio_buffer_size(buffer.get()), 0u);
}

TEST_F(CApi, OneModelServesManyThreads) {
  const Ids ids = Prompt("line ");
  const auto greedy = Options("generate", {{"temperature", "0"}, {"max_tokens", "20"}});
  const std::string alone = Write(ids, greedy.get());
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] { text = Write(ids, greedy.get()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, alone);
}

// A callback that would wait for itself is told so; a tokenizer it may use.
TEST_F(CApi, ACallbackDoesNotComputeWithItsModel) {
  struct Seen {
    folio_model* model;
    Ids ids;
    folio_status logits = FOLIO_OK, encode = FOLIO_USAGE;
  } seen{model_.get(), Prompt("line")};
  const auto greedy = Options("generate", {{"temperature", "0"}, {"max_tokens", "5"}});
  const std::string before = Write(seen.ids, greedy.get());
  const auto whole = NewBuffer();
  Do([&](folio_error** e) {
    return folio_generate(
        model_.get(), seen.ids.data(), seen.ids.size(), greedy.get(),
        [](void* user, const char* text, size_t length) {
          auto& of = *static_cast<Seen*>(user);
          const auto buffer = NewBuffer();
          of.logits = folio_logits(of.model, of.ids.data(), of.ids.size(), 0, nullptr, buffer.get(),
                                   nullptr);
          of.encode =
              folio_tokenizer_encode(folio_model_tokenizer(of.model), text, length,
                                     FOLIO_SPECIAL_ORDINARY, nullptr, buffer.get(), nullptr);
          return 0;
        },
        &seen, nullptr, whole.get(), nullptr, e);
  });
  EXPECT_EQ(seen.logits, FOLIO_USAGE);
  EXPECT_EQ(seen.encode, FOLIO_OK);
  EXPECT_EQ(TextIn(whole), before);
}

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
                }};
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

// Whatever is asked in whatever order is answered or refused.
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

std::vector<float> LogitsOf(const folio_model* model, const Ids& ids) {
  const auto logits = NewBuffer();
  Do([&](folio_error** e) {
    return folio_logits(model, ids.data(), ids.size(), 0, nullptr, logits.get(), e);
  });
  return Numbers<float>(logits);
}

// Files are read in whatever pieces are asked for.
int GiveBytes(void* user, uint64_t offset, void* bytes, size_t count) {
  const std::string& all = *static_cast<const std::string*>(user);
  if (offset + count > all.size()) return 1;
  std::memcpy(bytes, all.data() + offset, count);
  return 0;
}

TEST_F(CApi, OpensWhatIsInMemory) {
  const auto fp32 = Options("open", {{"dtype", "fp32"}});
  const Handle<folio_model> saved = Open(At("run"), fp32.get());
  Do([&](folio_error** e) {
    return folio_model_save(saved.get(), At("model.gguf").string().c_str(), "gguf", "fp32", e);
  });
  const Ids ids = Prompt("line 3");
  Handle<folio_model> of_directory, of_file;
  {
    const Handle<folio_files> files(folio_files_new());
    for (const auto& entry : std::filesystem::directory_iterator(At("run") / "best")) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = ReadFile(entry.path()), name = entry.path().filename().string();
      Do([&](folio_error** e) {
        return folio_files_add(files.get(), name.c_str(), bytes.data(), bytes.size(), e);
      });
    }
    std::string gguf = ReadFile(At("model.gguf"));
    Do([&](folio_error** e) {
      return folio_files_read(files.get(), "model.gguf", gguf.size(), GiveBytes, &gguf, e);
    });
    const std::string path = folio_files_path(files.get());
    of_directory = Open(path, fp32.get());
    of_file = Open(path + "/model.gguf", fp32.get());

    // What is wrong is named as what is in files.
    EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                               [&](folio_error** e) {
                                 return folio_files_add(files.get(), "model.gguf", "x", 1, e);
                               }),
                         "already"));
    EXPECT_TRUE(Contains(
        Fails(FOLIO_USAGE,
              [&](folio_error** e) { return folio_files_add(files.get(), "../x", "x", 1, e); }),
        "slashes"));
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_files_read(files.get(), "long", gguf.size() + 1,
                                                         GiveBytes, &gguf, e);
                               }),
                         "reader"));
    gguf.resize(gguf.size() / 2);
    Do([&](folio_error** e) {
      return folio_files_add(files.get(), "half.gguf", gguf.data(), gguf.size(), e);
    });
    folio_model* none = nullptr;
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_model_open((path + "/half.gguf").c_str(), nullptr,
                                                         nullptr, &none, e);
                               }),
                         "half.gguf"));
    EXPECT_TRUE(Contains(Fails(FOLIO_INPUT,
                               [&](folio_error** e) {
                                 return folio_model_open((path + "/nothing").c_str(), nullptr,
                                                         nullptr, &none, e);
                               }),
                         "nothing"));
  }
  // The files are gone, and the models go on.
  EXPECT_EQ(LogitsOf(of_directory.get(), ids), LogitsOf(saved.get(), ids));
  EXPECT_EQ(LogitsOf(of_file.get(), ids), LogitsOf(saved.get(), ids));
}

TEST_F(CApi, TensorsLieWhereTheyAre) {
  const Handle<folio_model> model = Open(At("run"), Options("open", {{"dtype", "fp32"}}).get());
  auto wte = Sized<folio_tensor>();
  Do([&](folio_error** e) {
    return folio_model_tensor(model.get(), "transformer.wte.weight", &wte, e);
  });
  ASSERT_EQ(wte.rank, 2);
  EXPECT_STREQ(wte.dtype, "F32");
  EXPECT_EQ(wte.shape[0], folio_model_vocab_size(model.get()));
  EXPECT_EQ(wte.shape[1], folio_model_width(model.get()));
  EXPECT_EQ(wte.bytes, static_cast<uint64_t>(4 * wte.shape[0] * wte.shape[1]));
  // The embedded token is its row, and that of its position.
  auto wpe = Sized<folio_tensor>();
  Do([&](folio_error** e) {
    return folio_model_tensor(model.get(), "transformer.wpe.weight", &wpe, e);
  });
  const Ids ids = {3};
  const auto rows = NewBuffer();
  Do([&](folio_error** e) {
    return folio_trace(model.get(), ids.data(), 1, "embedded", 0, rows.get(), e);
  });
  const auto row = Numbers<float>(rows);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(row[i], static_cast<const float*>(wte.data)[3 * row.size() + i] +
                          static_cast<const float*>(wpe.data)[i]);
  }
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_trace(model.get(), ids.data(), 1, "x", 0, rows.get(),
                                                  e);
                             }),
                       "embedded, ln_1"));
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_trace(model.get(), ids.data(), 1, "mlp", 99, rows.get(),
                                                  e);
                             }),
                       "layer 99"));
  wte.size = 8;
  EXPECT_TRUE(Contains(Fails(FOLIO_USAGE,
                             [&](folio_error** e) {
                               return folio_model_tensor(model.get(), "transformer.wte.weight",
                                                         &wte, e);
                             }),
                       "sizeof(folio_tensor)"));
}

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
  const auto of = Options("prepare", {{"tokenizer", tokenizer}, {"val_fraction", "0.2"}});
  watch.progress = [](void*, int64_t, int64_t) { return 1; };
  EXPECT_TRUE(Contains(Fails(FOLIO_CANCELLED,
                             [&](folio_error** e) {
                               return folio_data_prepare(texts, 1, data.c_str(), of.get(), &watch,
                                                         e);
                             }),
                       "stopped"));
  EXPECT_FALSE(std::filesystem::exists(data));
  Do([&](folio_error** e) {
    return folio_data_prepare(texts, 1, data.c_str(), of.get(), nullptr, e);
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

  // The norm of the gradient is that of its parts.
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

  // What is saved is a model, and so is the copy.
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

TEST(CLog, IsSilentUntilItIsAskedFor) {
  testing::internal::CaptureStderr();
  LogWarning("unheard");
  std::string heard;
  folio_set_log(
      FOLIO_LOG_WARNING,
      [](void* user, int32_t level, const char* text, size_t length) {
        *static_cast<std::string*>(user) += std::to_string(level) + std::string(text, length);
      },
      &heard);
  LogWarning("heard");
  Log(LogLevel::kInfo, "below");
  folio_set_log(FOLIO_LOG_INFO, nullptr, nullptr);
  LogWarning("unheard too");
  EXPECT_EQ(heard, "2heard");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CFatalDeathTest, IsToldBeforeTheEnd) {
  EXPECT_DEATH(
      {
        folio_set_fatal(
            [](void*, const char* text) {
              std::fprintf(stderr, "told: %s\n", text);
              std::fflush(stderr);
            },
            nullptr);
        FOLIO_CHECK(1 > 2, "a mistake");
      },
      "told: .*1 > 2: a mistake");
}

}  // namespace
}  // namespace folio
