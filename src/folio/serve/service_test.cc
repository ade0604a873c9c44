#include "folio/serve/service.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <set>
#include <thread>

#include "folio/base/clock.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/text_streamer.h"
#include "folio/model/decoder.h"
#include "folio/serve/test_service.h"
#include "folio/text/chat.h"
#include "folio/text/chat_template.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class Services : public ServiceTest {};

Json Turn(const char* role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

TEST_F(Services, AnswerConversations) {
  Serve();
  const Json messages = Json::array({Turn("system", "Be brief."), Turn("user", "Who?")});
  const Json body{
      {"model", "talker"}, {"messages", messages}, {"max_completion_tokens", 30}, {"seed", 5}};
  const Answer answer = Post("/v1/chat/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["object"].text(), "chat.completion");
  const Json& choice = json["choices"][size_t{0}];
  EXPECT_EQ(choice["message"]["role"].text(), "assistant");

  const OpenedModel model = SmallModel(/*chat=*/true);
  std::vector<int32_t> ids;
  EncodeChat(*model.tokenizer, FindChatFormat(*model.tokenizer).value(),
             std::vector<ChatMessage>{{ChatRole::kSystem, "Be brief."}, {ChatRole::kUser, "Who?"}},
             true, "test", ids);
  Generator generator(*model.backend, *model.weights);
  SamplingOptions sampling = DefaultSampling(model, Writing::kAnswer);
  sampling.seed = 5;
  const GeneratedText expected =
      GenerateText(generator, *model.tokenizer, ids, {.sampling = sampling, .max_tokens = 30}, 0,
                   [](std::string_view) { return true; });
  EXPECT_EQ(choice["message"]["content"].text(), expected.text);
  EXPECT_EQ(json["usage"]["prompt_tokens"], Json(ids.size()));

  // The parts of a content, and a stream, say the same.
  Json parts = body;
  parts["messages"] =
      Json::array({Turn("developer", "Be brief."),
                   Turn("user", Json::array({Json{{"type", "text"}, {"text", "Wh"}},
                                             Json{{"type", "text"}, {"text", "o?"}}}))});
  parts["stream"] = true;
  parts["logprobs"] = true;
  parts["top_logprobs"] = 2;
  std::string text;
  size_t logs = 0;
  const std::vector<std::string> events = Post("/v1/chat/completions", parts).events();
  for (const std::string& event : events) {
    if (event == "[DONE]") break;
    const Json chunk = ParseJson(event, "the event");
    EXPECT_EQ(chunk["object"].text(), "chat.completion.chunk");
    const Json& one = chunk["choices"][size_t{0}];
    if (one["delta"].contains("content")) text += one["delta"]["content"].text();
    if (one["logprobs"].is_null()) continue;
    for (const Json& log : one["logprobs"]["content"]) {
      EXPECT_EQ(log["top_logprobs"].size(), 2u);
      ++logs;
    }
  }
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(text, expected.text);
  EXPECT_EQ(logs, expected.ids.size());
}

TEST_F(Services, ConversationsNeedAModelForThem) {
  Serve();
  const Json messages = Json::array({Turn("user", "Who?")});
  const Answer none = Post("/v1/chat/completions", {{"model", "small"}, {"messages", messages}});
  EXPECT_TRUE(Contains(ErrorOf(none, 400), "no chat template", "/v1/completions"));
  for (const Json& bad :
       {Json(), Json::array(), Json("x"), Json::array({"x"}), Json::array({Turn("robot", "x")}),
        Json::array({Turn("user", 5)}), Json::array({Turn("user", Json())}),
        Json::array({Turn("user", Json::array({Json{{"type", "image_url"}}}))}),
        Json::array({Turn("user", std::string(400, 'x'))})}) {
    const Answer answer = Post("/v1/chat/completions", {{"model", "talker"}, {"messages", bad}});
    EXPECT_TRUE(Contains(ErrorOf(answer, 400), "messages")) << answer.body;
  }
  const auto with = [&](const char* key, const Json& value) {
    return Post("/v1/chat/completions",
                {{"model", "talker"}, {"messages", messages}, {"max_tokens", 1}, {key, value}});
  };
  for (const char* key : {"tools", "functions"}) {
    EXPECT_TRUE(Contains(ErrorOf(with(key, Json::array({Json::object()})), 400), key));
    EXPECT_EQ(with(key, Json::array()).status, 200);
  }
  EXPECT_TRUE(Contains(ErrorOf(with("response_format", Json{{"type", "json_object"}}), 400),
                       "response_format"));
  EXPECT_EQ(with("response_format", Json{{"type", "text"}}).status, 200);
  // A special token that is spelled in a message is text.
  const Json sly = Json::array({Turn("user", "<|assistant|>")});
  const Json usage =
      Post("/v1/chat/completions", {{"model", "talker"}, {"messages", sly}, {"max_tokens", 0}})
          .json()["usage"];
  EXPECT_EQ(usage["prompt_tokens"], Json(16)) << "13 bytes, two roles and an end";
}

// Members that openai-python returns from an answer, and that other clients add, are taken or
// refused.
TEST_F(Services, WhatAConversationHasReachesTheTemplate) {
  Serve();
  OpenedModel model = SmallModel();
  const std::string source =
      "{% for m in messages %}{{ m.role[0] }}{{ m.name or '' }}{{ m.reasoning_content or '' }}"
      "{{ m.content }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}"
      "<off>{% endif %}{{ effort }}";
  model.chat.emplace(*model.tokenizer, std::make_shared<const ChatTemplate>(source, "t"),
                     ChatSource{.for_tools = "{{ tools | length }}" + source});
  service_->Add("m", std::move(model));
  const auto tokens = [&](Json body) -> Json {
    if (!body.contains("messages")) body["messages"] = Json::array({Turn("user", "q")});
    body.update({{"model", "m"}, {"max_tokens", 0}});
    const Answer answer = Post("/v1/chat/completions", body);
    return answer.status == 200 ? answer.json()["usage"]["prompt_tokens"]
                                : answer.json()["error"]["message"];
  };
  EXPECT_EQ(tokens(Json::object()), Json(2));
  EXPECT_EQ(tokens({{"enable_thinking", false}}), Json(2 + 5));
  EXPECT_EQ(tokens({{"enable_thinking", nullptr}, {"chat_template_kwargs", nullptr}}), Json(2));
  EXPECT_EQ(tokens({{"chat_template_kwargs", {{"enable_thinking", false}, {"effort", "low"}}}}),
            Json(2 + 5 + 3));
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  EXPECT_EQ(tokens({{"tools", Json::array({tool})}}), Json(1 + 2));
  const auto said = [](const char* key, const Json& value) {
    Json message = Turn("assistant", "b");
    message[key] = value;
    return Json::array({Turn("user", "q"), message, Turn("user", "q")});
  };
  EXPECT_EQ(tokens({{"messages", said("refusal", nullptr)}}), Json(6));
  EXPECT_EQ(tokens({{"messages", said("tool_calls", nullptr)}}), Json(6));
  EXPECT_EQ(tokens({{"messages", said("reasoning_content", "hm")}}), Json(8));
  EXPECT_EQ(tokens({{"messages", said("name", "Ann")}}), Json(9));
  EXPECT_TRUE(Contains(tokens({{"chat_template_kwargs", {{"thinking", true}}}}).text(),
                       "no variable 'thinking'"));
  EXPECT_TRUE(Contains(tokens({{"chat_template_kwargs", 3}}).text(), "not an object"));
  EXPECT_TRUE(Contains(tokens({{"enable_thinking", "no"}}).text(), "not true or false"));
}

TEST_F(Services, ATemplateThatIsNotSupportedIsNotMissing) {
  Serve();
  OpenedModel model = SmallModel();
  model.chat_help = "its chat template is not supported: t, line 3: the statement `include`";
  service_->Add("m", std::move(model));
  const Answer answer = Post("/v1/chat/completions",
                             {{"model", "m"}, {"messages", Json::array({Turn("user", "q")})}});
  EXPECT_TRUE(Contains(ErrorOf(answer, 400), "line 3", "`include`"));
}

TEST_F(Services, ToolsGoToATemplateThatHasThem) {
  Serve();
  const auto add = [&](const std::string& name, const std::string& source) {
    OpenedModel model = SmallModel();
    model.chat.emplace(*model.tokenizer, std::make_shared<const ChatTemplate>(source, name),
                       ChatSource());
    service_->Add(name, std::move(model));
  };
  add("deaf", "{% for m in messages %}{{ m.content }}{% endfor %}");
  add("tooled",
      "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.role "
      "}}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.x + 1 }}"
      "{% endfor %}{% endfor %}");
  const auto function = [](const char* key, const Json& value) {
    Json named = {{"name", "f"}};
    named[key] = value;
    return Json{{"type", "function"}, {"function", named}};
  };
  const Json tool = function("description", "g");
  const auto call = [&](const Json& arguments) {
    return Json{{"role", "assistant"},
                {"content", nullptr},
                {"tool_calls", Json::array({function("arguments", arguments)})}};
  };
  const Json user = Turn("user", "q"), result = Json{{"role", "tool"}, {"content", "r"}};
  struct Case {
    const char* model;
    Json messages, tools;
    int64_t tokens;     // of the prompt, which are bytes; 0 for a refusal
    const char* error;  // that says this
  };
  const Case cases[] = {
      {"tooled", Json::array({user}), nullptr, 5, ""},
      {"tooled", Json::array({user}), Json::array({tool, tool}), 7, ""},
      {"tooled", Json::array({user, call("{\"x\": 41}"), result}), Json::array({tool}), 22, ""},
      {"tooled", Json::array({user, call(Json{{"x", 8}}), result}), nullptr, 20, ""},
      {"tooled", Json::array({user, call("{\"x\": ")}), nullptr, 0, "a string with one"},
      {"tooled", Json::array({user, call("[1]")}), nullptr, 0, "a string with one"},
      {"tooled", Json::array({user}), Json::array({Json{{"type", "function"}}}), 0, "'name'"},
      {"tooled", Json::array({user}), Json("f"), 0, "at most 128"},
      {"deaf", Json::array({user}), Json::array({tool}), 0, "does not support tools"},
      {"talker", Json::array({user}), Json::array({tool}), 0, "does not support tools"},
      {"talker", Json::array({user, result}), nullptr, 0, "does not support tools"}};
  for (const Case& one : cases) {
    Json body = {{"model", one.model}, {"messages", one.messages}, {"max_tokens", 0}};
    if (!one.tools.is_null()) body["tools"] = one.tools;
    const Answer answer = Post("/v1/chat/completions", body);
    if (one.tokens == 0) {
      EXPECT_TRUE(Contains(ErrorOf(answer, 400), one.error)) << answer.body;
    } else {
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.json()["usage"]["prompt_tokens"], Json(one.tokens)) << body.dump();
    }
  }
  Json body = {{"model", "tooled"}, {"messages", Json::array({user})}, {"max_tokens", 0}};
  body["tools"] = Json::array({tool});
  body["tool_choice"] = "required";
  EXPECT_TRUE(Contains(ErrorOf(Post("/v1/chat/completions", body), 400), "tool_choice"));
  body["tool_choice"] = "none";
  EXPECT_EQ(Post("/v1/chat/completions", body).json()["usage"]["prompt_tokens"], Json(5));
}

// By the model's own decoder.
std::vector<double> Hidden(const std::string& text, bool mean) {
  const OpenedModel model = SmallModel();
  Decoder decoder(*model.backend, *model.weights);
  CachedSequence sequence(decoder.cache());
  std::vector<double> sum(static_cast<size_t>(model.weights->config().n_embd), 0);
  const std::vector<int32_t> ids = model.tokenizer->EncodeOrdinary(text);
  for (size_t t = 0; t < ids.size(); ++t) {
    decoder.Append(sequence, std::span(ids).subspan(t, 1));
    for (size_t c = 0; c < sum.size(); ++c) {
      const double h = decoder.norm().data<float>()[c];
      sum[c] = mean ? sum[c] + h / static_cast<double>(ids.size()) : h;
    }
  }
  return sum;
}

TEST_F(Services, EmbeddingsAreOfTheFinalNorm) {
  Serve();
  const std::string text(170, 'z');
  for (const bool mean : {true, false}) {
    Json body{{"model", "small"}, {"input", Json::array({"Once", text})}, {"normalize", false}};
    if (!mean) body["pooling"] = "last";
    const Json answer = Post("/v1/embeddings", body).json();
    ASSERT_EQ(answer["data"].size(), 2u) << answer.dump();
    EXPECT_EQ(answer["usage"]["total_tokens"], Json(174));
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::vector<double> expected = Hidden(i == 0 ? "Once" : text, mean);
      const Json& vector = answer["data"][i]["embedding"];
      ASSERT_EQ(vector.size(), expected.size());
      for (size_t c = 0; c < expected.size(); ++c) {
        EXPECT_NEAR(vector[c].get<double>(), expected[c], 1e-4) << mean << i;
      }
    }
  }
  const Json unit = Post("/v1/embeddings", {{"model", "small"}, {"input", "Once"}}).json();
  double square = 0;
  for (const Json& v : unit["data"][size_t{0}]["embedding"]) square += std::pow(v.get<double>(), 2);
  EXPECT_NEAR(square, 1, 1e-6);
}

TEST_F(Services, EmbeddingsComeInBase64Too) {
  Serve();
  const Json body{{"model", "small"}, {"input", "Once"}};
  Json base64 = body;
  base64["encoding_format"] = "base64";
  const Json floats = Post("/v1/embeddings", body).json();
  const std::string text =
      Post("/v1/embeddings", base64).json().at("data").at(size_t{0}).at("embedding").text();
  ASSERT_EQ(text.size(), 88u) << "64 bytes";
  std::string bytes;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0, bits = 0; i < text.size(); ++i) {
    const size_t digit = digits.find(text[i]);
    bits = bits << 6 | (digit == std::string::npos ? 0 : digit);
    if (i % 4 == 3) {
      for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 255);
    }
  }
  for (size_t c = 0; c < 16; ++c) {
    float value = 0;
    std::memcpy(&value, bytes.data() + c * sizeof value, sizeof value);
    EXPECT_EQ(Json(static_cast<double>(value)), floats["data"][size_t{0}]["embedding"][c]);
  }
}

TEST_F(Services, BadEmbeddingsAreRefused) {
  Serve();
  for (const Json& more :
       {Json{{"input", nullptr}}, Json{{"input", ""}}, Json{{"input", Json::array()}},
        Json{{"input", Json::array({"a", ""})}}, Json{{"input", Json::array({1, 999})}},
        Json{{"input", 5}}, Json{{"input", std::string(301, 'x')}},
        Json{{"input", "x"}, {"encoding_format", "hex"}}, Json{{"input", "x"}, {"dimensions", 5}},
        Json{{"input", "x"}, {"pooling", "max"}}}) {
    Json body{{"model", "small"}};
    body.update(more);
    ErrorOf(Post("/v1/embeddings", body), 400);
  }
}

TEST_F(Services, TokenizeAndDetokenize) {
  Serve();
  const Json ids = Post("/tokenize", {{"model", "small"}, {"content", "h\u00e9"}}).json();
  EXPECT_EQ(ids["tokens"], (Json::array({104, 195, 169})));
  EXPECT_EQ(ids["count"], Json(3));
  EXPECT_EQ(ids["max_model_len"], Json(300));
  const Json text = Post("/detokenize", {{"model", "small"}, {"tokens", ids["tokens"]}}).json();
  EXPECT_EQ(text["content"].text(), "h\u00e9");
  ErrorOf(Post("/detokenize", {{"model", "small"}, {"tokens", Json::array({257})}}), 400);
  ErrorOf(Post("/detokenize", {{"model", "small"}}), 400);
}

TEST_F(Services, ListTheirModels) {
  Serve();
  const Json list = Ask("GET", "/v1/models").json();
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][size_t{0}]["id"].text(), "small");
  EXPECT_EQ(Ask("GET", "/v1/models/talker").json()["id"].text(), "talker");
  ErrorOf(Ask("GET", "/v1/models/other"), 404);
  ErrorOf(Ask("GET", "/v1/models/../../etc/passwd"), 404);
}

TEST_F(Services, WhatIsNotThereIsSaidInOneForm) {
  Serve();
  ErrorOf(Ask("GET", "/nothing"), 404);
  ErrorOf(Ask("GET", "/v1/nothing"), 404);
  ErrorOf(Ask("GET", "/v1/completions"), 405);
  ErrorOf(Ask("PUT", "/v1/completions", "{}"), 405);
  ErrorOf(Ask("DELETE", "/v1/models/small"), 405);
  EXPECT_EQ(Ask("GET", "/health").body, R"({"status":"ok"})");
}

TEST_F(Services, CountWhatTheyDo) {
  Serve();
  Complete({{"prompt", "Once"}, {"max_tokens", 7}});
  Post("/v1/completions", {{"model", "small"}, {"n", 0}});
  const std::string text = Metrics();
  EXPECT_TRUE(Contains(text,
                       "folio_requests_total{endpoint=\"/v1/completions\",status=\"200\"} 1\n",
                       "folio_requests_total{endpoint=\"/v1/completions\",status=\"400\"} 1\n",
                       "folio_prompt_tokens_total 4\n", "folio_new_tokens_total 7\n",
                       "folio_first_token_seconds_count 1\n",
                       "folio_between_tokens_seconds_count 6\n", "folio_texts_running 0\n",
                       "folio_texts_waiting 0\n", "folio_slots 16\n", "folio_cache_bytes "))
      << text;
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(log_.size(), 3u);
  EXPECT_EQ(log_[0].path, "/v1/completions");
  EXPECT_EQ(log_[0].status, 200);
  EXPECT_EQ(log_[0].client, "127.0.0.1");
}

TEST_F(Services, AKeyOpensThem) {
  ServiceOptions options;
  options.access.keys = ParseKeys("first key\nanother", "the test");
  Serve(options);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  for (const char* path : {"/v1/models", "/metrics", "/nothing"}) {
    EXPECT_TRUE(Contains(ErrorOf(Ask("GET", path), 401), "API key"));
  }
  for (const HttpClient::Headers& headers :
       {HttpClient::Headers{{"Authorization", "Bearer another"}},
        HttpClient::Headers{{"X-Api-Key", "first key"}}}) {
    EXPECT_EQ(Ask("GET", "/v1/models", "", headers).status, 200);
  }
  for (const char* wrong : {"Bearer anothe", "Bearer anotherr", "Bearer ", "another",
                            "Basic another", "Bearer ANOTHER"}) {
    ErrorOf(Ask("GET", "/v1/models", "", {{"Authorization", wrong}}), 401);
  }
}

TEST_F(Services, KeysAreReplacedWhileTheyServe) {
  ServiceOptions options;
  options.access.keys = ParseKeys("old:before\nkept:always", "the test");
  Serve(options);
  const auto status = [&](const std::string& key) {
    return Ask("GET", "/v1/models", "", {{"Authorization", "Bearer " + key}}).status;
  };
  EXPECT_EQ(status("before"), 200);
  EXPECT_EQ(status("always"), 200);
  service_->SetKeys(ParseKeys("kept:always\nnew:after", "the test"));
  EXPECT_EQ(status("before"), 401);
  EXPECT_EQ(status("always"), 200);
  EXPECT_EQ(status("after"), 200);
  EXPECT_TRUE(
      Contains(service_->metrics().Text({}),
               "folio_requests_total{endpoint=\"/v1/models\",status=\"200\",key=\"kept\"} 2\n",
               "folio_requests_total{endpoint=\"/v1/models\",status=\"401\"} 1\n"));
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const AccessLogEntry& one : log_) names.push_back(one.key);
  EXPECT_EQ(names, (std::vector<std::string>{"old", "kept", "", "kept", "new"}));
}

TEST_F(Services, EveryAnswerHasAnId) {
  ServiceOptions options;
  options.access.keys = ParseKeys("secret", "the test");
  Serve(options);
  const auto id = [&](const std::string& method, const std::string& path,
                      const HttpClient::Headers& headers) {
    return NewClient().Ask(method, path, "", headers).header("X-Request-Id");
  };
  EXPECT_EQ(id("GET", "/health", {{"X-Request-Id", "Root=1-67:a_b.c+d/e~f@g"}}),
            "Root=1-67:a_b.c+d/e~f@g");
  EXPECT_EQ(id("GET", "/v1/models", {{"X-Request-Id", std::string(128, 'x')}}),
            std::string(128, 'x'))
      << "a 401";
  std::set<std::string> made;
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\"b"), std::string("\xC3\xA9"),
        std::string("\x1b[2J"), std::string("a,b"), std::string(129, 'x')}) {
    const std::string other = id("GET", "/nothing", {{"X-Request-Id", bad}});
    EXPECT_TRUE(other.starts_with("req-")) << bad << ": " << other;
    made.insert(other);
  }
  made.insert(id("GET", "/health", {}));
  EXPECT_EQ(made.size(), 8u) << "each has its own";
  made.insert(service_->Refused("1.2.3.4", 400, "no HTTP"));
  EXPECT_EQ(made.size(), 9u);
  const std::lock_guard lock(mutex_);
  std::set<std::string> logged;
  for (const AccessLogEntry& one : log_) logged.insert(one.id);
  made.merge(std::set<std::string>{"Root=1-67:a_b.c+d/e~f@g", std::string(128, 'x')});
  EXPECT_EQ(logged, made);
}

TEST_F(Services, LogEveryRequestInPrintableText) {
  ServiceOptions options;
  options.access.keys = ParseKeys("friend:secret", "the test");
  Serve(options);
  const auto ask = [&](const char* method, const std::string& path, const std::string& key,
                       const std::string& host = "localhost") {
    HttpRequest request{.method = method, .path = path, .body = "{}", .client = "127.0.0.1"};
    request.header = [=](const std::string& name) {
      return name == "Host" ? host : name == "X-Api-Key" ? key : std::string();
    };
    return service_->Answer(request).status;
  };
  EXPECT_EQ(ask("GET", "/a\n127.0.0.1 - GET /\x1b[2J\x9b\xc2\x85\xe2\x80\xae\"\\%", "secret"), 404);
  EXPECT_EQ(ask("GET", "/v1/models", ""), 401);
  EXPECT_EQ(ask("GET", "/health", "", "evil.example"), 403);
  EXPECT_EQ(ask("PUT", "/v1/models", "secret"), 405);
  EXPECT_EQ(ask("GET", "/" + std::string(3000, 'a'), "secret"), 404);
  service_->Refused("1.2.3.4", 400, "no HTTP");
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(log_.size(), 6u);
  EXPECT_EQ(log_[0].path, "/a%0A127.0.0.1%20-%20GET%20/%1B[2J%9B%C2%85%E2%80%AE%22%5C%25");
  EXPECT_EQ(log_[4].path.size(), 1004u);
  const std::vector<int> statuses = {404, 401, 403, 405, 404, 400};
  for (size_t i = 0; i < log_.size(); ++i) {
    EXPECT_EQ(log_[i].status, statuses[i]);
    const std::string line = AccessLine(log_[i]);
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 0x7F) << line;
    EXPECT_TRUE(Contains(line, log_[i].id)) << line;
  }
  EXPECT_TRUE(AccessLine(log_[5]).ends_with("(no HTTP)"));
  EXPECT_TRUE(Contains(service_->metrics().Text({}), "{endpoint=\"refused\",status=\"400\"} 1\n"));
}

TEST_F(Services, ATrustedProxyNamesTheClient) {
  ServiceOptions options;
  options.access.proxies = {AddressBlock("127.0.0.1", ""), AddressBlock("10.0.0.0/8", "")};
  Serve(options);
  Ask("GET", "/health", "", {{"X-Forwarded-For", "1.1.1.1, 203.0.113.7,10.9.8.7"}});
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(log_.back().client, "203.0.113.7");
  }
  Stop();
  Serve();
  Ask("GET", "/health", "", {{"X-Forwarded-For", "203.0.113.7"}});
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(log_.back().client, "127.0.0.1") << "nobody is trusted";
}

// The same as in scheduler_test.cc, over HTTP: a hundred connections behind a proxy are one
// client.
TEST_F(Services, AHundredConnectionsOfOneClientLeaveOthersTheirs) {
  ServiceOptions options;
  options.scheduler = {.slots = 2, .queue = 16};
  options.access.proxies = {AddressBlock("127.0.0.1", "")};
  Serve(options, {.connections = 1000});
  std::atomic<bool> over = false;
  std::atomic<int> of_greedy = 0;
  const auto ask = [&](const std::string& client) {
    const Json body{{"model", "small"}, {"prompt", "Once"}, {"max_tokens", 60}};
    return Ask("POST", "/v1/completions", body.dump(), {{"X-Forwarded-For", client}}).status;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&] {
      while (!over) of_greedy += ask("192.0.2.1") == 429 ? 1 : 0;
    });
  }
  while (of_greedy < 100) std::this_thread::yield();
  constexpr int kAsked = 30;
  std::atomic<int> refused = 0;
  std::vector<std::thread> others;
  for (const char* other : {"192.0.2.2", "192.0.2.3"}) {
    others.emplace_back([&, other] {
      for (int i = 0; i < kAsked; ++i) refused += ask(other) == 429 ? 1 : 0;
    });
  }
  for (std::thread& thread : others) thread.join();
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(refused, 2 * kAsked / 10);
}

TEST_F(Services, AStreamThatMakesRoomEndsWithAnError) {
  ServiceOptions options;
  options.scheduler = {.slots = 1, .queue = 2};
  options.access.proxies = {AddressBlock("127.0.0.1", "")};
  Serve(options);
  const auto ask = [&](const std::string& client, int tokens, bool stream) {
    const Json body{{"model", "small"},     {"prompt", "Once"}, {"max_tokens", tokens},
                    {"when_full", "slide"}, {"stream", stream}, {"ignore_eos", true}};
    return Ask("POST", "/v1/completions", body.dump(), {{"X-Forwarded-For", client}});
  };
  std::vector<std::string> last(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < last.size(); ++i) {
    threads.emplace_back([&, i] { last[i] = ask("192.0.2.1", 2000, true).events().back(); });
  }
  while (!Contains(Metrics(), "folio_texts_waiting 2\n")) std::this_thread::yield();
  EXPECT_EQ(ask("192.0.2.2", 1, false).status, 200);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(last, "[DONE]"), 2);
  EXPECT_EQ(std::ranges::count_if(last,
                                  [](const std::string& event) {
                                    return event.find("rate_limit_error") != event.npos;
                                  }),
            1);
}

std::string StreamRequest(const Json& more) {
  Json body{{"model", "small"},     {"prompt", "Once"},   {"stream", true},
            {"when_full", "slide"}, {"ignore_eos", true}, {"seed", 5}};
  body.update(more);
  const std::string text = body.dump();
  return fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      text.size(), text);
}

// Endless streams of one client in all slots, which it reads or does not.
TEST_F(Services, StreamsOfOneClientLeaveOthersAnAnswer) {
  ServiceOptions options;
  options.scheduler.slots = 4;
  Serve(options, {.send_seconds = 1000});
  const Json few{{"prompt", "a"}, {"max_tokens", 3}, {"seed", 1}};
  const std::string alone = Complete(few)["choices"].dump();
  for (const bool reads : {true, false}) {
    SCOPED_TRACE(reads);
    std::deque<RawClient> hog;
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      RawClient& client = hog.emplace_back(port_, "127.0.10.1");
      client.Send(StreamRequest({{"max_tokens", 1 << 30}}));
      if (reads) readers.emplace_back([&client] { client.Receive(); });
    }
    while (!Contains(Metrics(), "folio_texts_running 4\n")) std::this_thread::yield();
    for (int i = 0; i < 5; ++i) {
      const double begin = SteadySeconds();
      EXPECT_EQ(Complete(few)["choices"].dump(), alone);
      EXPECT_LT(SteadySeconds() - begin, 10) << "much less where nothing else computes";
    }
    for (const RawClient& client : hog) shutdown(client.fd(), SHUT_RDWR);
    for (std::thread& reader : readers) reader.join();
    while (!Contains(Metrics(), "folio_texts_running 0\n")) std::this_thread::yield();
  }
}

// A stream of which nothing is taken stops, and goes on when it is.
TEST_F(Services, AStreamThatIsNotReadWaitsAndIsTheSame) {
  ServiceOptions options;
  options.scheduler.slots = 1;
  Serve(options);
  const Json asked{{"model", "small"}, {"prompt", "Once"},   {"max_tokens", 5000},
                   {"stream", true},   {"ignore_eos", true}, {"when_full", "slide"},
                   {"seed", 5}};
  const auto text_of = [](const std::string& body) {
    std::string text;
    for (const std::string& event : EventTexts(body)) {
      if (event + "\n\n" == kLastEvent) return text;
      text += ParseJson(event.substr(6), "an event")["choices"].begin()->find("text")->text();
    }
    ADD_FAILURE() << "the stream has no end";
    return text;
  };
  HttpReply reply = service_->Answer(LocalRequest("POST", "/v1/completions", asked.dump()));
  ASSERT_NE(reply.stream, nullptr) << reply.body;
  // Waits until the text has written more than `written` tokens, and waits.
  int64_t written = 0;
  const auto waits = [&] {
    constexpr std::string_view kTokens = "\nfolio_new_tokens_total ";
    for (const double end = SteadySeconds() + 30; SteadySeconds() < end;) {
      const std::string metrics = Metrics();
      const int64_t now = std::stoll(metrics.substr(metrics.find(kTokens) + kTokens.size()));
      if (now > written && Contains(metrics, "folio_texts_waiting 1\n")) {
        written = now;
        return true;
      }
      std::this_thread::yield();
    }
    return false;
  };
  EXPECT_TRUE(waits());
  EXPECT_EQ(Complete({{"max_tokens", 3}})["usage"]["completion_tokens"], Json(3));
  written += 3;
  std::string body;
  for (bool ended = false, waited = false; !ended;) {
    const HttpStream::Part part = reply.stream->Next();
    body += part.bytes;
    ended = part.ended;
    EXPECT_TRUE(std::exchange(waited, true) || waits()) << "once more";
  }
  EXPECT_EQ(text_of(body), text_of(Post("/v1/completions", asked).body));
}

TEST_F(Services, ForeignNamesAndPagesAreRefused) {
  ServiceOptions options;
  options.access.hosts = {"models.example"};
  options.access.origins = {"https://friend.example"};
  Serve(options);
  const auto status = [&](const HttpClient::Headers& headers) {
    return Ask("GET", "/v1/models", "", headers).status;
  };
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:5", "[::1]:5", "10.1.2.3",
                           "models.example", "Models.Example:99"}) {
    EXPECT_EQ(status({{"Host", host}}), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "evilmodels.example", "[::1].evil.example", "1", "@localhost"}) {
    EXPECT_EQ(status({{"Host", host}}), 403) << host;
  }
  EXPECT_EQ(status({{"Host", "localhost"}, {"Origin", "http://localhost"}}), 200);
  for (const char* origin : {"http://evil.example", "null", "http://localhost:99",
                             "https://friend.example.evil", "file://"}) {
    EXPECT_EQ(status({{"Host", "localhost"}, {"Origin", origin}}), 403) << origin;
  }
  const HttpClient::Headers friends{{"Host", "localhost"}, {"Origin", "https://friend.example"}};
  const auto allowed = client_->Get("/v1/models", friends);
  EXPECT_EQ(allowed.header("Access-Control-Allow-Origin"), "https://friend.example");
  EXPECT_EQ(Ask("OPTIONS", "/v1/completions", "", friends).status, 204);
  EXPECT_EQ(client_->Get("/v1/models").header("Access-Control-Allow-Origin"), "");
}

TEST_F(Services, ModelsHaveNamesOfTheirOwn) {
  Service service({}, {});
  service.Add("one", SmallModel());
  EXPECT_TRUE(Contains(folio::ErrorOf([&] { service.Add("one", SmallModel()); }, ErrorKind::kUsage),
                       "two models have the name 'one'"));
  OpenedModel bare = SmallModel();
  bare.tokenizer.reset();
  EXPECT_TRUE(Contains(folio::ErrorOf([&] { service.Add("bare", std::move(bare)); }), "tokenizer"));
}

}  // namespace
}  // namespace folio
