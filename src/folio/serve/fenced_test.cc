// A service answers the same where its models lie in memory that the host cannot touch.

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <tuple>
#include <utility>

#include "folio/backend/test_fenced_orders.h"
#include "folio/model_files/stored_model.h"
#include "folio/serve/test_service.h"

namespace folio {
namespace {

class FencedService : public PageTest,
                      public testing::WithParamInterface<std::tuple<Dtype, FencedOrder>> {
 protected:
  using Answers = std::map<std::string, std::string>;

  // The answers of a service of the same models on backends of this kind, by request.
  Answers AnswersOn(const std::function<std::unique_ptr<Backend>()>& make_backend) {
    make_model_ = [&](bool chat) {
      const OpenedModel& source = sources_.emplace_back(SmallModel(chat));
      OpenedModel model{.backend = make_backend(), .tokenizer = source.tokenizer};
      model.weights = MapWeights(AsStored(*source.weights), {.dtype = std::get<0>(GetParam())}, {},
                                 model.backend->memory());
      return model;
    };
    Serve();
    Answers answers = AskAll();
    Stop();
    return answers;
  }

 private:
  void Keep(Answers& answers, const std::string& request, const Answer& answer) const {
    EXPECT_EQ(answer.status, 200) << request << answer.body;
    // Names that are drawn, and times.
    static const std::regex kChance(
        R"x("(id|trace)":"[^"]*"|"created":[0-9]+|"[a-z]+_ms":[-+.e0-9]+)x");
    answers[request] = answer.type == "application/octet-stream"
                           ? answer.body
                           : std::regex_replace(answer.body, kChance, "");
  }

  Answers AskAll() {
    Answers answers;
    const std::pair<const char*, Json> posted[] = {
        {"/v1/completions",
         {{"model", "small"},
          {"prompt", "Once upon"},
          {"max_tokens", 14},
          {"seed", 3},
          {"logprobs", 3},
          {"echo", true}}},
        {"/v1/chat/completions",
         {{"model", "talker"},
          {"max_tokens", 9},
          {"seed", 4},
          {"logprobs", true},
          {"top_logprobs", 2},
          {"messages", Json::array({Json{{"role", "user"}, {"content", "Who is it?"}}})}}},
        {"/v1/embeddings", {{"model", "small"}, {"input", "some words"}}},
        {"/api/generate", {{"prompt", "ab"}, {"max_tokens", 12}, {"seed", 5}, {"logprobs", 2}}},
        {"/api/score", {{"text", "a text of some bytes"}, {"top", 3}}},
        {"/api/trace", {{"text", "a text to look at"}}},
    };
    std::string trace;
    for (const auto& [path, fields] : posted) {
      const Answer answer = Post(path, fields);
      Keep(answers, path, answer);
      if (answer.body.starts_with("{\"trace\"")) trace = answer.json()["trace"].text();
    }
    for (const char* view :
         {"thumbs?size=8", "attn/0/1", "scores", "row?l=1&h=0&q=5", "steps?l=1&h=1&q=7",
          "lens?pos=2,9&top=3", "logits?pos=4", "tensor/0.qkv", "tensor/1.up", "tensor/final"}) {
      Keep(answers, view, Ask("GET", "/api/trace/" + trace + "/" + view));
    }
    for (const char* view : {"/api/embed/pca", "/api/embed/nn?id=97&k=4", "/api/wpe?view=sim"}) {
      Keep(answers, view, Ask("GET", view));
    }
    return answers;
  }

  std::list<OpenedModel> sources_;  // where the numbers of models on the cpu backend lie
};

TEST_P(FencedService, AnswersAsOneOnTheCpu) {
  const Answers expected = AnswersOn(MakeCpuBackend);
  const Answers fenced = AnswersOn([] { return MakeFencedBackend(std::get<1>(GetParam())); });
  ASSERT_EQ(fenced.size(), expected.size());
  for (const auto& [request, answer] : expected) {
    EXPECT_FALSE(answer.empty()) << request;
    EXPECT_TRUE(fenced.at(request) == answer) << request << ": " << fenced.at(request);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FencedService,
                         testing::Combine(testing::Values(Dtype::kF32, Dtype::kBF16),
                                          FencedOrders()),
                         [](const auto& test) {
                           return std::string(DtypeName(std::get<0>(test.param))) + "_" +
                                  OrderName(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace folio
