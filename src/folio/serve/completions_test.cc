#include "folio/serve/completions.h"

#include <algorithm>
#include <set>

#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/infer/sampling_fields.h"
#include "folio/infer/text_streamer.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/file.h"
#include "folio/model/decoder.h"
#include "folio/serve/test_service.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

class Completions : public ServiceTest {
 protected:
  Completions() { Serve(); }

  // Returns the text that the library's generator writes.
  static GeneratedText Written(const std::string& prompt, GenerateOptions options,
                               uint64_t sequence = 0) {
    const OpenedModel model = SmallModel();
    Generator generator(*model.backend, *model.weights);
    return GenerateText(generator, *model.tokenizer, PromptTokens(*model.tokenizer, prompt),
                        options, sequence, [](std::string_view) { return true; });
  }
  // The text of a choice.
  std::string TextOfChoice(Json more, size_t choice = 0) const {
    return Complete(std::move(more))["choices"][choice]["text"].text();
  }
  // By index: the texts and finish reasons of a stream's choices.
  struct Streamed {
    std::map<int, std::string> text, reason;
    std::map<int, std::vector<double>> logs;
    Json usage;
    bool done = false;
  };
  Streamed Stream(Json body) const {
    body["model"] = "small";
    body["stream"] = true;
    const Answer answer = Post("/v1/completions", body);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.type, "text/event-stream");
    Streamed streamed;
    for (const std::string& event : answer.events()) {
      EXPECT_FALSE(streamed.done) << "nothing follows the end";
      if (event == "[DONE]") {
        streamed.done = true;
        continue;
      }
      const Json chunk = ParseJson(event, "the event");
      EXPECT_EQ(chunk["object"].text(), "text_completion");
      if (chunk.contains("usage") && !chunk["usage"].is_null()) streamed.usage = chunk["usage"];
      for (const Json& choice : chunk["choices"]) {
        const int index = choice["index"].get<int>();
        EXPECT_FALSE(streamed.reason.contains(index)) << "nothing follows a finish_reason";
        streamed.text[index] += choice["text"].text();
        if (!choice["finish_reason"].is_null()) {
          streamed.reason[index] = choice["finish_reason"].text();
        }
        if (choice["logprobs"].is_null()) continue;
        for (const Json& log : choice["logprobs"]["token_logprobs"]) {
          streamed.logs[index].push_back(log.is_null() ? 1 : log.get<double>());
        }
      }
    }
    EXPECT_TRUE(streamed.done);
    return streamed;
  }
};

TEST_F(Completions, AreWhatTheGeneratorWrites) {
  const Json answer = Complete({{"prompt", "Once"}, {"max_tokens", 20}, {"seed", 7}});
  EXPECT_EQ(answer["object"].text(), "text_completion");
  EXPECT_EQ(answer["model"].text(), "small");
  EXPECT_TRUE(answer["id"].text().starts_with("cmpl-"));
  const Json& choice = answer["choices"][size_t{0}];
  EXPECT_EQ(choice["text"].text(),
            Written("Once", {.sampling = {.seed = 7}, .max_tokens = 20}).text);
  EXPECT_EQ(choice["index"], Json(0));
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["finish_reason"].text(), "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], Json(4));
  EXPECT_EQ(answer["usage"]["completion_tokens"], Json(20));
  EXPECT_EQ(answer["usage"]["total_tokens"], Json(24));
}

TEST_F(Completions, EveryFieldHasItsDefaultAndNullIsOne) {
  const Json body{{"model", "small"}, {"seed", 3}};
  Json nulls = body;
  for (const std::string& key : Split(
           "prompt max_tokens temperature top_p n best_of stream stream_options logprobs echo stop "
           "presence_penalty frequency_penalty logit_bias suffix user top_k min_p "
           "repetition_penalty min_tokens ignore_eos when_full truncate",
           ' ')) {
    nulls[key] = nullptr;
  }
  nulls["what_nobody_knows"] = 5;
  const std::string text =
      Post("/v1/completions", body).json().at("choices").at(size_t{0}).at("text").text();
  EXPECT_EQ(Post("/v1/completions", nulls).json().at("choices").at(size_t{0}).at("text").text(),
            text);
  const Json answer = Post("/v1/completions", body).json();
  EXPECT_EQ(answer["usage"]["completion_tokens"], Json(16));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], Json(1)) << "no prompt is the end of text";
}

TEST_F(Completions, OptionsReachTheSampler) {
  const Json base{{"prompt", "Once"}, {"max_tokens", 24}, {"seed", 11}};
  GenerateOptions options{.sampling = {.seed = 11}, .max_tokens = 24};
  const auto expect = [&](const Json& more, const std::function<void(SamplingOptions&)>& set) {
    Json body = base;
    body.update(more);
    GenerateOptions changed = options;
    set(changed.sampling);
    EXPECT_EQ(TextOfChoice(body), Written("Once", changed).text) << more.dump();
    EXPECT_NE(TextOfChoice(body), TextOfChoice(base)) << more.dump() << " changes nothing";
  };
  expect({{"temperature", 0.5}}, [](SamplingOptions& s) { s.temperature = 0.5; });
  expect({{"temperature", 0}}, [](SamplingOptions& s) { s.temperature = 0; });
  expect({{"top_p", 0.3}}, [](SamplingOptions& s) { s.top_p = 0.3; });
  expect({{"top_k", 2}}, [](SamplingOptions& s) { s.top_k = 2; });
  expect({{"min_p", 0.5}}, [](SamplingOptions& s) { s.min_p = 0.5; });
  expect({{"temperature", 3}}, [](SamplingOptions& s) { s.temperature = 3; });
  for (const char* name : {"typical", "typical_p"}) {
    expect({{name, 0.2}}, [](SamplingOptions& s) { s.typical = 0.2; });
  }
  for (const char* name : {"no_repeat_ngram", "no_repeat_ngram_size"}) {
    expect({{name, 1}}, [](SamplingOptions& s) { s.penalties.no_repeat_ngram = 1; });
  }
  expect({{"presence_penalty", 2}}, [](SamplingOptions& s) { s.penalties.presence = 2; });
  expect({{"frequency_penalty", 2}}, [](SamplingOptions& s) { s.penalties.frequency = 2; });
  expect({{"repetition_penalty", 3}}, [](SamplingOptions& s) { s.penalties.repetition = 3; });
  expect({{"logit_bias", Json{{"65", 100}}}}, [](SamplingOptions& s) {
    s.penalties.bias = {{65, 100}};
  });
  expect({{"seed", 12}}, [](SamplingOptions& s) { s.seed = 12; });
  expect({{"seed", -1}}, [](SamplingOptions& s) { s.seed = ~uint64_t{0}; });
}

TEST_F(Completions, HaveTheSamplingFieldsOfTheProgram) {
  const std::string page = ReadFile(SourceDir() / "docs/serve.md");
  SamplingOptions options;
  std::optional<int64_t> seed;
  for (const Field& field : SamplingFields(options, seed)) {
    const auto answer = [&](const Json& value) {
      return Post("/v1/completions", {{"model", "small"}, {"max_tokens", 1}, {field.key, value}});
    };
    EXPECT_TRUE(Contains(ErrorOf(answer("many"), 400), "'" + field.key + "'"));
    EXPECT_TRUE(Contains(page, "`" + field.key + "`"));
    if (field.key == "seed" || field.key == "min_tokens") continue;  // any, at most max_tokens
    for (const double value : {field.min, field.max})
      EXPECT_EQ(answer(value).status, 200) << field.key;
    for (const double value : {field.min - 2, field.max + 1}) ErrorOf(answer(value), 400);
  }
}

TEST_F(Completions, TextsOfOnePromptDifferAndAreThoseOfTheirPlaces) {
  const Json answer = Complete(
      {{"prompt", Json::array({"Once", "Twice"})}, {"n", 3}, {"max_tokens", 12}, {"seed", 5}});
  ASSERT_EQ(answer["choices"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], Json(i));
    EXPECT_EQ(
        answer["choices"][i]["text"].text(),
        Written(i < 3 ? "Once" : "Twice", {.sampling = {.seed = 5}, .max_tokens = 12}, i % 3).text);
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], Json(9)) << "a prompt counts once";
  EXPECT_EQ(answer["usage"]["completion_tokens"], Json(72));
}

TEST_F(Completions, PromptsMayBeTokens) {
  const Json ids = Json::array({79, 110, 99, 101});
  const Json more{{"max_tokens", 8}, {"seed", 1}};
  const std::string text = TextOfChoice({{"prompt", "Once"}, {"max_tokens", 8}, {"seed", 1}});
  EXPECT_EQ(TextOfChoice({{"prompt", ids}, {"max_tokens", 8}, {"seed", 1}}), text);
  EXPECT_EQ(TextOfChoice({{"prompt", Json::array({ids, ids})}, {"max_tokens", 8}, {"seed", 1}}, 1),
            text);
  const Json told = Complete({{"prompt", ids}, {"return_token_ids", true}, {"max_tokens", 3}});
  EXPECT_EQ(told["choices"][size_t{0}]["prompt_token_ids"], ids);
  EXPECT_EQ(told["choices"][size_t{0}]["token_ids"].size(), 3u);
}

TEST_F(Completions, TheBestOfSeveralIsTheLikeliest) {
  const Json all =
      Complete({{"prompt", "Once"}, {"n", 5}, {"max_tokens", 6}, {"seed", 2}, {"logprobs", 0}});
  std::vector<std::pair<double, std::string>> ranked;
  for (const Json& choice : all["choices"]) {
    double sum = 0;
    for (const Json& log : choice["logprobs"]["token_logprobs"]) sum -= log.get<double>();
    ranked.emplace_back(sum, choice["text"].text());
  }
  std::ranges::sort(ranked);
  const Json best =
      Complete({{"prompt", "Once"}, {"n", 2}, {"best_of", 5}, {"max_tokens", 6}, {"seed", 2}});
  ASSERT_EQ(best["choices"].size(), 2u);
  EXPECT_EQ(best["choices"][size_t{0}]["text"].text(), ranked[0].second);
  EXPECT_EQ(best["choices"][1]["text"].text(), ranked[1].second);
  EXPECT_EQ(best["usage"]["completion_tokens"], Json(30)) << "all of them were written";
}

TEST_F(Completions, StopStringsEndATextAndAreNotShown) {
  const Json base{{"prompt", "Once"}, {"max_tokens", 40}, {"seed", 9}};
  const std::string whole = TextOfChoice(base);
  const std::string stop = whole.substr(whole.size() / 2, 3);
  for (const Json& given : {Json(stop), Json::array({"never there", stop})}) {
    Json body = base;
    body["stop"] = given;
    const Json answer = Complete(body);
    EXPECT_EQ(answer["choices"][size_t{0}]["text"].text(), whole.substr(0, whole.find(stop)));
    EXPECT_EQ(answer["choices"][size_t{0}]["finish_reason"].text(), "stop");
  }
}

TEST_F(Completions, ATextEndsWhereTheContextIsFull) {
  const Json answer = Complete({{"prompt", std::string(295, 'x')}, {"max_tokens", 100}});
  EXPECT_EQ(answer["choices"][size_t{0}]["finish_reason"].text(), "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], Json(6));
}

TEST_F(Completions, GoOnBeyondTheContextAsGenerateDoes) {
  const std::string prompt(295, 'x'), longer = prompt + "and more than the context";
  GenerateOptions options{.sampling = {.seed = 6}, .max_tokens = 400};
  Json body{{"model", "small"}, {"prompt", prompt}, {"max_tokens", 400}, {"seed", 6}};
  body["when_full"] = "slide";
  EXPECT_GT(Complete(body)["usage"]["completion_tokens"].get<int64_t>(), 160) << "it slides twice";
  EXPECT_EQ(TextOfChoice(body), Written(prompt, options).text);
  // A prompt that is longer, too, if that is wanted.
  body["prompt"] = longer;
  EXPECT_EQ(Post("/v1/completions", body).json()["error"]["code"], "context_length_exceeded");
  body["truncate"] = options.truncate = true;
  EXPECT_EQ(TextOfChoice(body), Written(longer, options).text);
  EXPECT_EQ(Complete(body)["usage"]["prompt_tokens"], Json(150)) << "half of the context";
  // Tokens that the model does not see have no probabilities.
  body.update({{"echo", true}, {"logprobs", 1}});
  EXPECT_EQ(Post("/v1/completions", body).json()["error"]["code"], "context_length_exceeded");
}

// The expected probabilities are those of a pass over the text by itself.
TEST_F(Completions, PromptLogProbabilitiesAreTheModels) {
  const std::string prompt(200, 'q'), text = "It was " + prompt + " and so.";
  const Json answer =
      Complete({{"prompt", text}, {"echo", true}, {"logprobs", 3}, {"max_tokens", 2}, {"seed", 1}});
  const Json& choice = answer["choices"][size_t{0}];
  EXPECT_EQ(choice["text"].text().substr(0, text.size()), text);
  const Json& logs = choice["logprobs"];
  ASSERT_EQ(logs["tokens"].size(), text.size() + 2);
  EXPECT_TRUE(logs["token_logprobs"][size_t{0}].is_null());
  EXPECT_TRUE(logs["top_logprobs"][size_t{0}].is_null());
  const OpenedModel model = SmallModel();
  Decoder decoder(*model.backend, *model.weights);
  CachedSequence sequence(decoder.cache());
  const std::vector<int32_t> ids = model.tokenizer->EncodeOrdinary(text);
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const Tensor row = decoder.Append(sequence, std::span(ids).subspan(t, 1));
    const ModelProbabilities expected = ProbabilitiesOf(Elements<float>(row), ids[t + 1], 3);
    EXPECT_NEAR(logs["token_logprobs"][t + 1].get<double>(), expected.log_probability, 1e-4);
    const size_t likeliest = logs["top_logprobs"][t + 1].size();
    EXPECT_TRUE(likeliest == 3 || likeliest == 4) << likeliest;
  }
  for (size_t t = 0; t < text.size(); ++t) EXPECT_EQ(logs["text_offset"][t], Json(t));
  EXPECT_EQ(logs["text_offset"][text.size()], Json(text.size())) << "what is written follows";
  // Looking changes nothing of what is written.
  EXPECT_EQ(choice["text"].text().substr(text.size()),
            TextOfChoice({{"prompt", text}, {"max_tokens", 2}, {"seed", 1}}));
}

TEST_F(Completions, NothingNeedBeWritten) {
  const Json scored =
      Complete({{"prompt", "Once"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  EXPECT_EQ(scored["choices"][size_t{0}]["text"].text(), "Once");
  EXPECT_EQ(scored["choices"][size_t{0}]["logprobs"]["token_logprobs"].size(), 4u);
  EXPECT_EQ(scored["usage"]["completion_tokens"], Json(0));
  EXPECT_EQ(TextOfChoice({{"prompt", "Once"}, {"max_tokens", 0}}), "");
}

TEST_F(Completions, StreamsSayTheSame) {
  for (const Json& more :
       {Json::object(), Json{{"n", 3}}, Json{{"logprobs", 2}}, Json{{"stop", "e"}},
        Json{{"echo", true}, {"logprobs", 1}}, Json{{"prompt", Json::array({"A", "B"})}},
        Json{{"max_tokens", 0}, {"echo", true}}}) {
    Json body{{"prompt", "Once \u00e9"}, {"max_tokens", 50}, {"seed", 4}};
    body.update(more);
    const Json whole = Complete(body);
    body["stream_options"] = Json{{"include_usage", true}};
    const Streamed streamed = Stream(body);
    ASSERT_EQ(streamed.text.size(), whole["choices"].size()) << more.dump();
    for (const Json& choice : whole["choices"]) {
      const int index = choice["index"].get<int>();
      EXPECT_EQ(streamed.text.at(index), choice["text"].text()) << more.dump();
      EXPECT_EQ(streamed.reason.at(index), choice["finish_reason"].text()) << more.dump();
      if (choice["logprobs"].is_null()) continue;
      std::vector<double> logs;
      for (const Json& log : choice["logprobs"]["token_logprobs"]) {
        logs.push_back(log.is_null() ? 1 : log.get<double>());
      }
      EXPECT_EQ(streamed.logs.at(index), logs) << more.dump();
    }
    EXPECT_EQ(streamed.usage["total_tokens"], whole["usage"]["total_tokens"]);
  }
}

TEST_F(Completions, BadFieldsAreNamed) {
  const auto lists = [](const Json& one) { return Json::array({one}); };
  const std::vector<std::pair<std::string, std::vector<Json>>> of_field = {
      {"max_tokens", {-1, 1.5, "5"}},
      {"temperature", {-0.1, 1e7, true}},
      {"top_p", {-0.1}},
      {"n", {0, 129, 1e300}},
      {"logprobs", {21}},
      {"stream", {"yes"}},
      {"stop", {"", 5, lists(1), std::vector<std::string>(17, "x")}},
      {"presence_penalty", {100.1}},
      {"frequency_penalty", {-101}},
      {"logit_bias",
       {Json::array(), Json{{"x", 1}}, Json{{"257", 1}}, Json{{"-1", 1}}, Json{{"1", 101}}}},
      {"seed", {0.5, 1e30}},
      {"suffix", {"x"}},
      {"prompt",
       {5, Json::object(), Json::array(), lists(Json::array()), Json::array({1, 257}),
        Json::array({1, -1}), Json::array({1, "x"}), Json::array({"x", 1}),
        std::vector<std::string>(65, "x"), std::string(301, 'x')}},
      {"min_tokens", {17}},
      {"top_k", {-2, 2e9}},
      {"when_full", {"wait", true}},
      {"truncate", {"yes"}},
      {"stop_token_ids", {lists(300)}},
      {"stream_options", {"all", Json{{"include_usage", 1}}}},
  };
  std::vector<std::pair<Json, std::string>> bad = {
      {{{"n", 3}, {"best_of", 2}}, "best_of"},
      {{{"best_of", 2}, {"stream", true}}, "best_of"},
  };
  for (const auto& [field, values] : of_field) {
    for (const Json& value : values) {
      bad.emplace_back(Json::object(), field);
      bad.back().first[field] = value;
    }
  }
  for (const auto& [more, field] : bad) {
    Json body{{"model", "small"}};
    body.update(more);
    const Answer answer = Post("/v1/completions", body);
    EXPECT_TRUE(Contains(ErrorOf(answer, 400), field)) << body.dump() << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], Json(field)) << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"].text(), "invalid_request_error");
  }
  EXPECT_EQ(Post("/v1/completions", {{"model", "small"}, {"prompt", std::string(301, 'x')}})
                .json()["error"]["code"]
                .text(),
            "context_length_exceeded");
}

TEST_F(Completions, BodiesThatAreNoRequestAreRefused) {
  for (const char* body : {"", "{", "[]", "5", "null", "{\"a\":1}x", "{\"a\":1,\"a\":2}", "\xff",
                           "{\"prompt\":\"\xff\"}"}) {
    ErrorOf(Ask("POST", "/v1/completions", body), 400);
  }
  ErrorOf(Ask("POST", "/v1/completions", std::string(100, '[')), 400);
  EXPECT_TRUE(Contains(ErrorOf(Post("/v1/completions", {{"model", "huge"}}), 404), "'huge'",
                       "small, talker"));
}

// Its tokenizer has a token for which the model has no row.
TEST_F(Completions, ATokenThatTheModelLacksIsRefusedByItsName) {
  OpenedModel model = SmallModel();
  const std::vector<std::string> more = {"<image>"};
  auto tokenizer = std::make_unique<ByteTokenizer>(more);
  tokenizer->set_known_tokens(model.weights->config().vocab_size);
  model.tokenizer = std::move(tokenizer);
  service_->Add("fewer", std::move(model));
  const Json body = {{"model", "fewer"}, {"max_tokens", 4}, {"min_tokens", 4}};
  const auto with = [&](const Json& prompt) {
    Json all = body;
    all["prompt"] = prompt;
    return Post("/v1/completions", all);
  };
  EXPECT_EQ(with("a").status, 200);
  for (const char* prompt : {"<image>", "a<image>b"}) {
    EXPECT_TRUE(Contains(ErrorOf(with(prompt), 400),
                         "the model does not have the token \"<image>\"", "257 embeddings"));
  }
  EXPECT_TRUE(Contains(ErrorOf(with(Json::array({1, 257})), 400), "token ids, 0 to 256"));
}

}  // namespace
}  // namespace folio
