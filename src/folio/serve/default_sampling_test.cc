// The defaults of a request: its model, and how tokens are chosen.
#include "folio/infer/default_sampling.h"

#include "folio/infer/text_streamer.h"
#include "folio/serve/access.h"
#include "folio/serve/test_service.h"
#include "folio/text/chat.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// A model that suggests what nothing else has as its default.
OpenedModel Suggesting(bool chat) {
  OpenedModel model = SmallModel(chat);
  model.sampling = {.source = "generation_config.json", .temperature = 0.4, .top_k = 7};
  return model;
}

class Unsaid : public PageTest {
 protected:
  // Serves one model alone.
  void ServeOne(const std::string& name, OpenedModel model, ServiceOptions options = {}) {
    Stop();
    service_ = std::make_unique<Service>(std::move(options), nullptr);
    service_->Add(name, std::move(model));
    server_.emplace([this](HttpRequest request) { return service_->Answer(std::move(request)); });
    port_ = server_->port();
  }
  HttpAnswer Reply(const std::string& path, const Json& body) const {
    return NewClient().Ask("POST", path, body.dump(), {});
  }
  static Json FirstChoice(const HttpAnswer& reply) {
    const Json json = ParseJson(reply.body, "the answer");
    return json["choices"][size_t{0}];
  }
  // The text that the model writes on from ids.
  static std::string Written(const OpenedModel& model, const std::vector<int32_t>& ids,
                             const GenerateOptions& options) {
    Generator generator(*model.backend, *model.weights);
    return GenerateText(generator, *model.tokenizer, ids, options, 0,
                        [](std::string_view) { return true; })
        .text;
  }
};

TEST_F(Unsaid, AnswersAreSampledAsTheProgramDoesIt) {
  const Json messages = Json::array({Json{{"role", "user"}, {"content", "Who?"}}});
  const ChatMessage asked{ChatRole::kUser, "Who?"};
  for (const bool suggests : {false, true}) {
    const OpenedModel model = suggests ? Suggesting(true) : SmallModel(true);
    std::vector<int32_t> ids;
    EncodeChat(*model.tokenizer, *FindChatFormat(*model.tokenizer), {&asked, 1}, true, "", ids);
    GenerateOptions options = DefaultGeneration(model, Writing::kAnswer);
    options.sampling.seed = 5;
    options.max_tokens = 20;
    ServeOne("one", suggests ? Suggesting(true) : SmallModel(true));
    const auto answer = [&](Json more) {
      Json body{{"messages", messages}, {"seed", 5}, {"max_tokens", 20}};
      body.update(more);
      return FirstChoice(Reply("/v1/chat/completions", body))["message"]["content"].text();
    };
    const std::string expected = Written(model, ids, options);
    EXPECT_EQ(answer(Json::object()), expected);
    // Each value that is said counts, and only that.
    options.sampling.temperature = 1.7;
    EXPECT_NE(Written(model, ids, options), expected) << "else this says nothing";
    EXPECT_EQ(answer(Json{{"temperature", 1.7}}), Written(model, ids, options));
    options.sampling.top_k = 0;
    options.sampling.top_p = 1;
    options.sampling.min_p = 0;
    EXPECT_EQ(answer(Json{{"temperature", 1.7}, {"top_k", 0}, {"top_p", 1}, {"min_p", 0}}),
              Written(model, ids, options));
  }
}

TEST_F(Unsaid, TextsAreSampledAsTheModelSuggests) {
  ServeOne("one", Suggesting(false));
  const OpenedModel model = Suggesting(false);
  GenerateOptions options = DefaultGeneration(model, Writing::kText);
  EXPECT_EQ(options.sampling.temperature, 0.4);
  options.sampling.seed = 3;
  options.max_tokens = 20;
  const HttpAnswer reply =
      Reply("/v1/completions", {{"prompt", "Once"}, {"seed", 3}, {"max_tokens", 20}});
  EXPECT_EQ(FirstChoice(reply)["text"].text(),
            Written(model, PromptTokens(*model.tokenizer, "Once"), options));
}

TEST_F(Unsaid, ThePageIsToldTheDefaults) {
  ServeOne("one", Suggesting(true));
  const auto info = [&] { return Get("/api/info"); };
  for (const char* kind : {"sampling", "chat_sampling"}) {
    EXPECT_EQ(info()[kind]["temperature"], Json(0.4)) << kind;
    EXPECT_EQ(info()[kind]["top_k"], Json(7)) << kind;
    EXPECT_FALSE(info()[kind].contains("typical_p")) << kind;
  }
  EXPECT_EQ(info()["sampling"]["max_tokens"], Json(256));
  EXPECT_EQ(info()["chat_sampling"]["max_tokens"], Json(512));
  ServeOne("one", SmallModel());
  EXPECT_TRUE(info()["chat_sampling"].is_null()) << "it was not taught to answer";
}

TEST_F(Unsaid, AConversationOfThePageMayBeginWithASystemMessage) {
  Serve();
  const auto turn = [](const char* role, const char* content) {
    return Json{{"role", role}, {"content", content}};
  };
  const Json system = turn("system", "Be brief."), user = turn("user", "Who?"),
             assistant = turn("assistant", "I.");
  const auto ids = [&](const Json& messages) {
    std::vector<int32_t> written;
    const Json fields{{"model", "talker"}, {"messages", messages}, {"seed", 5}, {"max_tokens", 9}};
    for (const PageEvent& event : Generate(fields)) {
      if (event.name == "token") written.push_back(event.data["id"].get<int32_t>());
    }
    return written;
  };
  EXPECT_EQ(ids(Json::array({system, user})).size(), 9u);
  EXPECT_NE(ids(Json::array({system, user, assistant, user})),
            ids(Json::array({user, assistant, user})));
  for (const Json& bad :
       {Json::array({system}), Json::array({user, system}), Json::array({system, system, user}),
        Json::array({system, user, assistant}), Json::array({system, assistant, user})}) {
    const Json fields{{"model", "talker"}, {"messages", bad}};
    EXPECT_TRUE(Contains(ErrorOf(Post("/api/generate", fields), 400), "alternating messages"))
        << bad.dump();
  }
}

TEST_F(Unsaid, OneModelAnswersToAnyName) {
  const Json body{{"model", "gpt-4"}, {"prompt", "a"}, {"max_tokens", 1}};
  ServeOne("a\nb", SmallModel());
  const HttpAnswer reply = Reply("/v1/completions", body);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header(kModelHeader), "a%0Ab");
  EXPECT_EQ(ParseJson(reply.body, "the answer")["model"].text(), "a\nb");
  EXPECT_EQ(Reply("/v1/embeddings", {{"model", "text-embedding-3"}, {"input", "a"}}).status, 200);
  EXPECT_EQ(Reply("/tokenize", {{"prompt", "a"}}).header(kModelHeader), "a%0Ab");
  // A request for a model by name is not answered with another model.
  EXPECT_EQ(Ask("GET", "/v1/models/gpt-4").status, 404);
  EXPECT_EQ(Reply("/api/generate", {{"model", "gpt-4"}, {"prompt", "a"}}).status, 404);
  ServeOne("one", SmallModel(), {.strict_model_names = true});
  const HttpAnswer refused = Reply("/v1/completions", body);
  EXPECT_EQ(refused.status, 404);
  EXPECT_TRUE(Contains(refused.body, "there is no model 'gpt-4'", "model_not_found", "one"));
  EXPECT_EQ(Reply("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 200);
}

TEST_F(Unsaid, OfSeveralModelsOneMustBeNamed) {
  Serve();
  const Answer missing = Post("/v1/completions", {{"prompt", "a"}});
  EXPECT_TRUE(Contains(ErrorOf(missing, 400), "'model' is missing", "small, talker"));
  EXPECT_EQ(missing.json()["error"]["code"].text(), "model_missing");
  EXPECT_EQ(missing.json()["error"]["param"].text(), "model");
  ErrorOf(Post("/v1/completions", {{"model", ""}, {"prompt", "a"}}), 400);
  ErrorOf(Post("/v1/completions", {{"model", "gpt-4"}, {"prompt", "a"}}), 404);
}

}  // namespace
}  // namespace folio
