// A model as its makers published it, against numbers that another implementation computed of it
// in float32. Neither is part of the project.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "folio/formats/published_models.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/model/decoder.h"
#include "folio/text/chat.h"
#include "folio/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> IdsOf(const Json& json) {
  std::vector<int32_t> ids;
  for (const Json& id : json) ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  return ids;
}

class PublishedModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(models_ / kFile)) GTEST_SKIP() << kFile << " is not here";
    expected_ = ParseJson(ReadFile(models_ / "smollm2-expected.json"), "expected");
    model_ = OpenModel(models_ / kFile);  // in float32
  }

  // Expects the next token's logits, and then the same text as long as nothing is nearly as likely
  // as what is.
  void ExpectWrites(const std::vector<int32_t>& prompt, const Json& expected) {
    Decoder decoder(*model_.backend, *model_.weights, {.pages = 4});
    CachedSequence sequence(decoder.cache());
    Tensor logits = decoder.Append(sequence, prompt);
    const Json &first = expected["first"], &top = first["top5"];
    const double bound = bound_ * first["max_abs"].get<double>();
    for (size_t i = 0; i < top.size(); ++i) {
      const double found = logits.data<float>()[top[i].get<int64_t>()];
      EXPECT_NEAR(found, first["logits"][i].get<double>(), bound);
    }
    const std::vector<int32_t> greedy = IdsOf(expected["greedy"]);
    size_t written = 0;
    for (; written < greedy.size(); ++written) {
      if (expected["gaps"][written].get<double>() < 10 * bound) break;
      const std::span<const float> row(logits.data<float>(), static_cast<size_t>(logits.dim(1)));
      ASSERT_EQ(std::ranges::max_element(row) - row.begin(), greedy[written]) << written;
      logits = decoder.Append(sequence, {&greedy[written], 1});
    }
    written_ += written;
  }

  static constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
  const fs::path models_ = SourceDir() / "../shared/models";
  Json expected_;
  OpenedModel model_;
  double bound_ = 2e-4;  // of the largest logit, over 30 layers
  size_t written_ = 0;
};

TEST_F(PublishedModel, EncodesAsItsOwnTokenizer) {
  for (const Json& text : expected_["texts"]) {
    EXPECT_EQ(model_.tokenizer->Encode(text["text"].text(), "a text", SpecialRule::Allow()),
              IdsOf(text["ids"]))
        << text["text"].text();
  }
}

TEST_F(PublishedModel, WritesWhatItsNumbersSay) {
  for (const Json& prompt : expected_["prompts"]) {
    SCOPED_TRACE(prompt["text"].text());
    const std::vector<int32_t> ids = model_.tokenizer->EncodeOrdinary(prompt["text"].text());
    EXPECT_EQ(ids, IdsOf(prompt["ids"]));
    ExpectWrites(ids, prompt);
  }
  EXPECT_GT(written_, 80u);  // most of the texts are far from doubt for a while
}

// Its matrices are multiplied in the types of the file: what they meet is rounded so little that
// the same is written.
TEST_F(PublishedModel, WritesThatAsItIsStoredToo) {
  model_ = OpenModel(models_ / kFile, {.matrices = MatrixDtypeNamed("auto")});
  bound_ = 1e-3;
  for (const Json& prompt : expected_["prompts"]) ExpectWrites(IdsOf(prompt["ids"]), prompt);
  for (const Json& chat : expected_["chats"]) ExpectWrites(IdsOf(chat["ids"]), chat);
  EXPECT_GT(written_, 80u);
}

TEST_F(PublishedModel, SeesConversationsByItsTemplate) {
  for (const Json& chat : expected_["chats"]) {
    std::vector<ChatMessage> messages;
    for (const Json& message : chat["messages"]) {
      messages.push_back({*FindChatRole(message["role"].text()), message["content"].text()});
    }
    std::vector<int32_t> ids;
    model_.FindChat()->Encode(*model_.tokenizer, {.messages = messages}, true, "a conversation",
                              ids);
    EXPECT_EQ(ids, IdsOf(chat["ids"]));
    ExpectWrites(ids, chat);
  }
}

// With all tokens at temperature 1, which was the default, it writes of something else.
TEST_F(PublishedModel, AnswersSimpleQuestionsByDefault) {
  model_ = OpenModel(models_ / kFile, {.matrices = MatrixDtypeNamed("auto")});
  Generator generator(*model_.backend, *model_.weights);
  const ChatMessage asked{ChatRole::kUser, "What is 2+2?"};
  std::vector<int32_t> ids;
  model_.FindChat()->Encode(*model_.tokenizer, {.messages = {asked}}, true, "a conversation", ids);
  GenerateOptions options = DefaultGeneration(model_, Writing::kAnswer);
  options.max_tokens = 24;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    options.sampling.seed = seed;
    const GeneratedText written =
        GenerateText(generator, *model_.tokenizer, ids, ForTokens(model_, options), 0,
                     [](std::string_view) { return true; });
    EXPECT_NE(written.text.find('4'), std::string::npos) << written.text;
  }
}

}  // namespace
}  // namespace folio
