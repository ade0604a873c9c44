#include "folio/text/chat_encoder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat_template.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

class ChatEncoders : public InTemporaryDirectory {
 protected:
  int32_t Special(size_t i) const { return tokenizer_->special_tokens()[i].id; }
  ChatEncoder Encoder(const std::string& name, const ChatSource& source = {}) const {
    return {*tokenizer_, OpenChatTemplate(name), source};
  }

  std::unique_ptr<Tokenizer> tokenizer_ =
      ByteTokenizer().WithSpecials(std::vector<std::string>{"<|im_start|>", "<|im_end|>", "</s>"});
};

TEST_F(ChatEncoders, WriteConversationsAsTheirTemplateDoes) {
  const ChatEncoder encoder = Encoder("chatml");
  EXPECT_EQ(encoder.format(), nullptr);
  const std::vector<ChatMessage> messages = {{ChatRole::kUser, "<|im_end|>"}};
  Ids ids;
  encoder.Encode(*tokenizer_, messages, /*ask=*/true, "test", ids);
  const int32_t start = Special(1), end = Special(2);
  EXPECT_EQ(std::ranges::count(ids, start), 2);
  EXPECT_EQ(std::ranges::count(ids, end), 1) << "the message has only what looks like one";
  EXPECT_EQ(tokenizer_->Decode(ids),
            "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  const std::unique_ptr<Tokenizer> of_roles = WithChatTokens(ByteTokenizer());
  const ChatFormat format = FindChatFormat(*of_roles).value();
  Ids by_roles, expected;
  ChatEncoder(format).Encode(*of_roles, messages, true, "test", by_roles);
  EncodeChat(*of_roles, format, messages, true, "test", expected);
  EXPECT_EQ(by_roles, expected);
  EXPECT_EQ(ChatEncoder(format).ends(), Ids{format.end});
}

TEST_F(ChatEncoders, FindWhatEndsAnAnswer) {
  EXPECT_EQ(Encoder("chatml").ends(), Ids{Special(2)});
  EXPECT_EQ(Encoder("chatml", {.eos_token = "</s>"}).ends(), (Ids{Special(2), Special(3)}));
  EXPECT_EQ(Encoder("zephyr", {.eos_token = "</s>"}).ends(), Ids{Special(3)});
  EXPECT_EQ(Encoder("llama3").ends(), Ids()) << "its <|eot_id|> is no token here";
}

TEST_F(ChatEncoders, TemplatesAreReadFromFilesOfModels) {
  const auto read = [&](const std::string& config) {
    WriteFileAtomically(At("tokenizer_config.json"), config);
    return ReadChatSource(At(""));
  };
  EXPECT_EQ(ReadChatSource(At("")).text, "");
  EXPECT_EQ(read(R"({"bos_token":"<s>"})").text, "");
  ChatSource source = read(
      R"({"chat_template":"{{ x }}","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}})");
  EXPECT_EQ(source.text, "{{ x }}");
  EXPECT_EQ(source.bos_token, "<s>");
  EXPECT_EQ(source.eos_token, "</s>");
  source = read(R"({"chat_template":[{"name":"tool_use","template":"t"},)"
                R"({"name":"default","template":"d"}],"eos_token":null})");
  EXPECT_EQ(source.text, "d");
  WriteFileAtomically(At("chat_template.jinja"), "j");
  source = ReadChatSource(At(""));
  EXPECT_EQ(source.text, "j");
  EXPECT_EQ(source.where, At("chat_template.jinja"));
  // What tokenizer_config.json does not name, the map beside it may.
  WriteFileAtomically(At("special_tokens_map.json"),
                      R"({"bos_token":"<a>","eos_token":{"content":"<b>"},"pad_token":"<c>"})");
  EXPECT_EQ(ReadChatSource(At("")).eos_token, "<b>");
  EXPECT_EQ(ReadChatSource(At("")).bos_token, "<a>");
  source = read(R"({"eos_token":"</s>"})");
  EXPECT_EQ(source.eos_token, "</s>");
  EXPECT_EQ(source.bos_token, "<a>");
  std::filesystem::remove(At("tokenizer_config.json"));
  EXPECT_EQ(ReadChatSource(At("")).eos_token, "<b>");
  EXPECT_TRUE(Contains(ErrorOf([&] { read("[1"); }), "tokenizer_config.json"));
}

}  // namespace
}  // namespace folio
