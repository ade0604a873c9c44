#include "folio/text/chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

TEST(Chat, TurnsAreMarkedAndTheirTextIsOrdinary) {
  const std::unique_ptr<Tokenizer> tokenizer = WithChatTokens(ByteTokenizer());
  const ChatFormat format = FindChatFormat(*tokenizer).value();
  EXPECT_EQ(tokenizer->vocab_size(), 261);
  const std::vector<ChatMessage> messages = {
      {ChatRole::kSystem, ""}, {ChatRole::kUser, "<|end|>"}, {ChatRole::kAssistant, "no"}};
  Ids ids, expected = {format.system, format.end, format.user};
  EncodeChat(*tokenizer, format, messages, true, "test", ids);
  for (const char c : std::string_view("<|end|>")) expected.push_back(c);
  expected.insert(expected.end(),
                  {format.end, format.assistant, 'n', 'o', format.end, format.assistant});
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(tokenizer->Decode(ids),
            "<|system|><|end|><|user|><|end|><|end|><|assistant|>no<|end|><|assistant|>");
}

TEST(Chat, OnlyWhatIsMissingIsAdded) {
  EXPECT_FALSE(FindChatFormat(ByteTokenizer()));
  const CharTokenizer letters({U'a', U'b'});
  const std::unique_ptr<Tokenizer> once = WithChatTokens(letters);
  EXPECT_EQ(once->vocab_size(), 2 + 5);
  EXPECT_EQ(once->end_of_text(), 2);
  EXPECT_EQ(WithChatTokens(*once)->hash(), once->hash());
  const std::vector<std::string> some = {"<|end|>", "<|user|>"};
  EXPECT_EQ(WithChatTokens(*letters.WithSpecials(some))->vocab_size(), 2 + 5);
  EXPECT_FALSE(FindChatFormat(*letters.WithSpecials(some)));
}

TEST(Chat, RolesHaveTheirUsualNames) {
  for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
    EXPECT_EQ(FindChatRole(ChatRoleName(role)), role);
  }
  EXPECT_FALSE(FindChatRole("owner"));
}

class ChatFiles : public InTemporaryDirectory {};

TEST_F(ChatFiles, OtherProgramsFindTheTemplate) {
  const auto config = [&](const Tokenizer& tokenizer) {
    tokenizer.Save(At("").string());
    return nlohmann::json::parse(ReadFile(At("tokenizer_config.json")));
  };
  EXPECT_FALSE(config(ByteTokenizer()).contains("chat_template"));
  const nlohmann::json chat = config(*WithChatTokens(ByteTokenizer()));
  EXPECT_EQ(chat["chat_template"], RoleTokenTemplate());
  EXPECT_EQ(chat["eos_token"], "<|end|>");
  EXPECT_EQ(chat["bos_token"], "<|endoftext|>");
}

}  // namespace
}  // namespace folio
