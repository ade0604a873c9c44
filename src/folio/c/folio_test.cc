#include "folio/c/folio.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/log.h"
#include "folio/c/test_api.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "tests/kit/expect.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

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
                       "no tokenizer 'gpt3'", "did you mean r50k_base?"));
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
  for (const char* kind : {"open", "generate", "train"}) {
    Do([&](folio_error** e) { return folio_options_describe(kind, json.get(), e); });
    const auto all = nlohmann::json::parse(TextIn(json));
    EXPECT_GT(all.size(), 2u);
    const Handle<folio_options> same(folio_options_new(kind));
    for (const auto& one : all) {  // each keeps its default unless stated
      if (one["value"] == "") continue;
      Do([&](folio_error** e) {
        return folio_options_set(same.get(), one["name"].get<std::string>().c_str(),
                                 one["value"].get<std::string>().c_str(), e);
      });
    }
  }
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

// An answer without options uses those of `folio chat`.
TEST_F(CApi, AnAnswerHasTheDefaultsOfFolioChat) {
  const auto fp32 = Options("open", {{"dtype", "fp32"}});
  const Handle<folio_model> whole = Open(At("run"), fp32.get());
  const std::string saved = At("hf").string();
  Do([&](folio_error** e) {
    return folio_model_save(whole.get(), saved.c_str(), "hf", "fp32", e);
  });
  const Ids prompt = Prompt("line ");
  const auto write = [&](const std::vector<std::pair<std::string, std::string>>& more) {
    model_ = Open(saved, fp32.get());
    std::vector<std::pair<std::string, std::string>> all = {{"seed", "7"}};
    all.insert(all.end(), more.begin(), more.end());
    return Write(prompt, Options("generate", all).get());
  };
  const auto expected = [&](Writing writing, std::optional<double> temperature = {}) {
    const OpenedModel model = OpenModel(saved);
    GenerateOptions options = DefaultGeneration(model, writing);
    options.sampling.seed = 7;
    if (temperature) options.sampling.temperature = *temperature;
    Generator generator(*model.backend, *model.weights);
    return GenerateText(generator, *model.tokenizer, prompt, options, 0, [](auto) { return true; })
        .text;
  };
  const std::string plain = write({}), best = write({{"defaults", "chat"}});
  EXPECT_EQ(plain, write({{"defaults", "plain"}}));
  EXPECT_EQ(best, expected(Writing::kAnswer));
  EXPECT_NE(best, plain);
  EXPECT_EQ(write({{"temperature", "2"}, {"defaults", "chat"}}), expected(Writing::kAnswer, 2));
  EXPECT_EQ(write({{"defaults", "chat"}, {"max_tokens", "3"}}).size(), 3u);
  PutFile("hf/generation_config.json", R"({"temperature": 1.5, "top_k": 3, "do_sample": true})");
  const std::string suggested = write({{"defaults", "chat"}});
  EXPECT_EQ(suggested, expected(Writing::kAnswer));
  EXPECT_NE(suggested, best);
  EXPECT_EQ(write({}), plain);  // a text is unchanged

  folio_batch* made = nullptr;
  Do([&](folio_error** e) { return folio_batch_new(model_.get(), 1, &made, e); });
  const Handle<folio_batch> batch(made);
  std::string together;
  const auto chat = Options("generate", {{"seed", "7"}, {"defaults", "chat"}});
  Do([&](folio_error** e) {
    return folio_batch_add(
        batch.get(), prompt.data(), prompt.size(), chat.get(),
        [](void* user, const char* text, size_t length) {
          static_cast<std::string*>(user)->append(text, length);
          return 0;
        },
        nullptr, &together, nullptr, e);
  });
  for (int32_t more = 1; more != 0;) {
    Do([&](folio_error** e) { return folio_batch_step(batch.get(), &more, e); });
  }
  EXPECT_EQ(together, suggested);
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
  model_.reset();  // the batch keeps what it needs
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
  // Another thread requests it, and the callback may too.
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
    auto& found = *static_cast<Heard*>(user);
    found.all.emplace_back(done, total);
    return found.all.size() == found.stop_at ? 1 : 0;
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
  ASSERT_GE(heard.all.size(), 1u);
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

// A callback that would wait for itself gets an error; it may use a tokenizer.
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
          auto& found = *static_cast<Seen*>(user);
          const auto buffer = NewBuffer();
          found.logits = folio_logits(found.model, found.ids.data(), found.ids.size(), 0, nullptr,
                                      buffer.get(), nullptr);
          found.encode =
              folio_tokenizer_encode(folio_model_tokenizer(found.model), text, length,
                                     FOLIO_SPECIAL_ORDINARY, nullptr, buffer.get(), nullptr);
          return 0;
        },
        &seen, nullptr, whole.get(), nullptr, e);
  });
  EXPECT_EQ(seen.logits, FOLIO_USAGE);
  EXPECT_EQ(seen.encode, FOLIO_OK);
  EXPECT_EQ(TextIn(whole), before);
}

// Training, in SetUp, and generating leave signals and children to the program.
TEST_F(CApi, TakesNoSignalsAndStartsNoProcess) {
  Write(Prompt("line"), nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGPIPE, SIGUSR1, SIGUSR2,
                           SIGXCPU, SIGXFSZ, SIGCHLD, SIGBUS}) {
    struct sigaction action = {};
    ASSERT_EQ(sigaction(signal, nullptr, &action), 0);
    if (kSanitized && signal == SIGBUS) continue;  // sanitizers use it
    EXPECT_EQ(action.sa_flags & SA_SIGINFO, 0) << signal;
    EXPECT_TRUE(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) << signal;
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
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
