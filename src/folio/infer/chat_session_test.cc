#include "folio/infer/chat_session.h"

#include <gtest/gtest.h>

#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat_template.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

class ChatSessions : public testing::Test {
 protected:
  // As a conversation of messages by turns, the user's first.
  Ids Encoded(const std::vector<std::string>& said) const {
    std::vector<ChatMessage> messages;
    for (const std::string& text : said) {
      messages.push_back({messages.size() % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, text});
    }
    Ids ids;
    EncodeChat(*tokenizer_, format_, messages, /*ask=*/true, "test", ids);
    return ids;
  }
  Ids Bytes(const std::string& text) const { return {text.begin(), text.end()}; }

  std::unique_ptr<Tokenizer> tokenizer_ = WithChatTokens(ByteTokenizer());
  ChatFormat format_ = FindChatFormat(*tokenizer_).value();
};

TEST_F(ChatSessions, EveryTurnIsKeptWhileThereIsRoom) {
  ChatSession session(*tokenizer_, format_, 100);
  EXPECT_EQ(session.Ask("Who?", 10).ids, Encoded({"Who?"}));
  session.Answered(Bytes("Me."));
  EXPECT_EQ(session.Ask("Why?", 10).ids, Encoded({"Who?", "Me.", "Why?"}));
  session.Answered(Bytes("So."));
  const ChatSession::Question third = session.Ask("Oh.", 10);
  EXPECT_EQ(third.ids, Encoded({"Who?", "Me.", "Why?", "So.", "Oh."}));
  EXPECT_EQ(third.forgotten, 0);
}

// A turn here has 4 + 3 + 4 = 11 tokens, the last message with the beginning of its answer 7.
TEST_F(ChatSessions, TheOldestTurnsAreForgottenWhereItGrowsTooLong) {
  ChatSession session(*tokenizer_, format_, 39);  // 39 - 39/4 = 30 for a question
  for (int turn = 0; turn < 5; ++turn) {
    const ChatSession::Question question = session.Ask("Who?", 10);
    EXPECT_EQ(question.forgotten, turn < 3 ? 0 : 1);
    EXPECT_EQ(question.ids.size(), 7u + 11u * static_cast<size_t>(std::min(turn, 2)));
    session.Answered(Bytes("Me."));
  }
  EXPECT_EQ(session.Ask("And who are you all?", 10).forgotten, 3) << "23 and 11 are more than 30";
  session.Answered(Bytes("Me."));
  const ChatSession::Question whole = session.Ask(std::string(60, 'x'), 10);
  EXPECT_EQ(whole.ids, Encoded({std::string(60, 'x')})) << "one message is never cut";
  EXPECT_EQ(whole.forgotten, 1);
}

TEST_F(ChatSessions, NoMoreRoomIsLeftThanIsAskedFor) {
  for (const size_t length : {12u, 13u}) {
    ChatSession session(*tokenizer_, format_, 39);  // 37 for a question
    for (int turn = 0; turn < 2; ++turn) {
      session.Ask("Who?", 2);
      session.Answered(Bytes("Me."));
    }
    EXPECT_EQ(session.Ask(std::string(length, 'x'), 2).forgotten, length == 12 ? 0 : 1)
        << "22 and 3 more than the message";
  }
}

TEST_F(ChatSessions, AnAnswerMayBeTakenBack) {
  ChatSession session(*tokenizer_, format_, 100);
  session.Ask("Who?", 10);
  session.Answered(Bytes("Me."));
  session.TakeBackAnswer();
  session.Answered(Bytes("You."));
  EXPECT_EQ(session.Ask("Why?", 10).ids, Encoded({"Who?", "You.", "Why?"}));
}

// The system's message stays at the beginning, whatever is forgotten.
TEST_F(ChatSessions, TheSystemsMessageIsNeverForgotten) {
  ChatSession session(*tokenizer_, format_, 39);
  session.SetSystem("Hm.");
  Ids begin;
  const ChatMessage system{ChatRole::kSystem, "Hm."};
  EncodeChat(*tokenizer_, format_, {&system, 1}, /*ask=*/false, "test", begin);
  ASSERT_GT(begin.size(), 3u);
  const auto behind = [&](Ids ids) {
    ids.insert(ids.begin(), begin.begin(), begin.end());
    return ids;
  };
  EXPECT_EQ(session.Ask("Who?", 10).ids, behind(Encoded({"Who?"})));
  session.Answered(Bytes("Me."));
  EXPECT_EQ(session.Ask("Why?", 10).ids, behind(Encoded({"Who?", "Me.", "Why?"})));
  session.Answered(Bytes("So."));
  const ChatSession::Question third = session.Ask("Oh no", 10);
  EXPECT_EQ(third.forgotten, 1);
  EXPECT_EQ(third.ids, behind(Encoded({"Why?", "So.", "Oh no"})));
  session.SetSystem("");
  EXPECT_EQ(session.Ask("Oh.", 10).ids[0], Encoded({"x"})[0]);
}

TEST_F(ChatSessions, ATemplateMayRefuseTheSystemsMessage) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'system' and 'no' in m.content %}"
      "{{ raise_exception('no system') }}{% endif %}[{{ m.content }}]{% endfor %}>";
  const ChatEncoder encoder(*tokenizer_, std::make_shared<const ChatTemplate>(source, "t"), {});
  ChatSession session(*tokenizer_, encoder, 100);
  session.SetSystem("s");
  EXPECT_EQ(tokenizer_->Decode(session.Ask("a", 10).ids), "[s][a]>");
  EXPECT_TRUE(Contains(ErrorOf([&] { session.SetSystem("no"); }), "no system"));
  session.Answered(Bytes("b"));
  EXPECT_EQ(tokenizer_->Decode(session.Ask("c", 10).ids), "[s][a][b][c]>");
}

// A template is given the whole conversation each time: this one takes out what was thought before.
TEST_F(ChatSessions, TemplatesSeeTheWholeConversation) {
  const std::string source =
      "{% for m in messages %}{% if not loop.last and not loop.index0 % 2 == (m.role == "
      "'assistant')"
      " | int %}{{ raise_exception('by turns') }}{% endif %}[{{ m.content.split('!')[-1] }}]"
      "{% endfor %}{% if m is defined or 'no' in messages[-1].content %}"
      "{{ raise_exception('no') }}{% endif %}>";
  const ChatEncoder encoder(*tokenizer_, std::make_shared<const ChatTemplate>(source, "t"), {});
  ChatSession session(*tokenizer_, encoder, 16);  // 12 for a question
  const auto ask = [&](const std::string& message) {
    const ChatSession::Question question = session.Ask(message, 10);
    return tokenizer_->Decode(question.ids) + " " + std::to_string(question.forgotten);
  };
  EXPECT_EQ(ask("a"), "[a]> 0");
  session.Answered(Bytes("hm!b"));
  EXPECT_TRUE(
      Contains(ErrorOf([&] { ask("no"); }), ": the template rejects this conversation", "no"));
  EXPECT_EQ(ask("c"), "[a][b][c]> 0");
  session.Answered(Bytes("d"));
  session.TakeBackAnswer();
  session.Answered(Bytes("e"));
  EXPECT_EQ(ask("f"), "[c][e][f]> 1") << "16 are more than 12";
  session.Answered(Bytes("g"));
  session.Said("h", "i");
  EXPECT_EQ(ask("0123456789abcdef"), "[0123456789abcdef]> 3");
}

}  // namespace
}  // namespace folio
