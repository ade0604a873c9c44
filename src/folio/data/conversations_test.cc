#include "folio/data/conversations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "folio/data/test_tokens.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

const ChatMarks kChat = {.border = 0, .answer = {1}, .end = 2};
constexpr int32_t kUser = 3;
using Ids = std::vector<int32_t>;
using Order = PackedConversations::Order;

class Conversations : public InTemporaryDirectory {
 protected:
  // Conversations with a border behind each.
  TokenFile Write(const std::vector<Ids>& conversations) {
    Ids all;
    for (const Ids& ids : conversations) {
      all.insert(all.end(), ids.begin(), ids.end());
      all.push_back(kChat.border);
    }
    WriteTokens(At("t.bin"), TokenWidth::k16, all);
    return TokenFile(At("t.bin").string(), TokenWidth::k16, 60000);
  }
  // A question of `question` tokens and an answer of `answer`, all distinct.
  Ids Pair(int question, int answer) {
    Ids ids = {kUser};
    for (int i = 0; i < question; ++i) ids.push_back(next_++);
    ids.insert(ids.end(), {kChat.end, kChat.answer[0]});
    for (int i = 0; i < answer; ++i) ids.push_back(next_++);
    ids.push_back(kChat.end);
    return ids;
  }

  int32_t next_ = 10;
};

Batch Filled(BatchSampler& sampler, uint64_t step, int64_t micro = 0) {
  Batch batch;
  sampler.Fill(step, micro, batch);
  return batch;
}

TEST_F(Conversations, OnlyAnswersAndTheirEndsAreTargets) {
  // question 10 11, answer 12, second question 13, answer 14 15
  const TokenFile file = Write({{3, 10, 11, 2, 1, 12, 2, 3, 13, 2, 1, 14, 15, 2}});
  const ConversationTable table_of_sampler = TableByMarks(file, kChat);
  PackedConversations sampler(file, table_of_sampler, {1, 16, 1}, 0, Order::kOnce);
  const Batch batch = Filled(sampler, 0);
  constexpr int32_t no = Batch::kNoTarget;
  EXPECT_EQ(batch.inputs, (Ids{3, 10, 11, 2, 1, 12, 2, 3, 13, 2, 1, 14, 15, 0, 0, 0}));
  EXPECT_EQ(batch.targets, (Ids{no, no, no, no, 12, 2, no, no, no, no, 14, 15, 2, no, no, no}));
  EXPECT_EQ(batch.begins, (Ids{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 13, 13}));
  EXPECT_EQ(sampler.Targets(0), 5);
  EXPECT_EQ(sampler.Targets(1), 0);
}

TEST_F(Conversations, TakeOnePositionLessThanTokens) {
  const TokenFile file = Write({Pair(2, 3), {3, 10, 2}, Pair(1, 1), {}});
  EXPECT_EQ(PositionsOfConversations(TableByMarks(file, kChat)), (std::vector<int64_t>{8, 5}));
}

TEST_F(Conversations, TheFirstQuestionEndsWhereItsAnswerBegins) {
  const TokenFile file =
      Write({{3, 10, 2}, {3, 11, 12, 13, 2, 1, 14, 2, 3, 15, 2, 1, 16, 2}, {3, 17, 2, 1, 18, 2}});
  EXPECT_EQ(FirstQuestion(file, TableByMarks(file, kChat), 100), (Ids{3, 11, 12, 13, 2, 1}));
  EXPECT_EQ(FirstQuestion(file, TableByMarks(file, kChat), 5), (Ids{3, 17, 2, 1}));
  EXPECT_EQ(FirstQuestion(file, TableByMarks(file, kChat), 3), Ids{});
}

// Every conversation is in exactly one window, complete, and no window is too full.
TEST_F(Conversations, ArePackedWholeAndEachOnceInAnEpoch) {
  std::vector<Ids> all;
  std::map<int32_t, Ids> by_first_word;
  for (int i = 0; i < 40; ++i) {
    all.push_back(Pair(1 + i * 7 % 5, 1 + i * 3 % 4));
    by_first_word[all.back()[1]] = all.back();
  }
  const TokenFile file = Write(all);
  for (const Order order : {Order::kOnce, Order::kShuffled}) {
    const ConversationTable table_of_sampler = TableByMarks(file, kChat);
    PackedConversations sampler(file, table_of_sampler, {3, 17, 2}, 5, order);
    EXPECT_EQ(sampler.conversations(), 40);
    EXPECT_EQ(sampler.cut(), 0);
    std::multiset<int32_t> seen;
    int64_t positions = 0, targets = 0, counted = 0;
    for (int64_t w = 0; w < sampler.windows(); ++w) {
      const Batch batch = Filled(sampler, static_cast<uint64_t>(w / 6), w % 6 / 3);
      const size_t row = static_cast<size_t>(w % 3 * 17);
      for (size_t t = 0; t < 17; ++t) {
        const auto begin = static_cast<size_t>(batch.begins[row + t]);
        ASSERT_LE(begin, t);
        if (batch.inputs[row + begin] != kUser) continue;  // padding
        const Ids& conversation = by_first_word.at(batch.inputs[row + begin + 1]);
        EXPECT_EQ(batch.inputs[row + t], conversation[t - begin]);
        if (batch.targets[row + t] != Batch::kNoTarget) {
          EXPECT_EQ(batch.targets[row + t], conversation[t - begin + 1]);
          ++targets;
        }
        if (begin == t) seen.insert(conversation[1]);
        ++positions;
      }
    }
    for (int64_t s = 0; s < sampler.steps(); ++s) counted += sampler.Targets(uint64_t(s));
    EXPECT_EQ(seen.size(), 40u);
    EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 40u);
    int64_t inputs = 0;
    for (const Ids& ids : all) inputs += std::ssize(ids) - 1;
    EXPECT_EQ(positions, inputs);
    EXPECT_LE(sampler.windows(), (inputs + 16) / 17 + 2);  // little is left empty
    if (order == Order::kOnce) {
      EXPECT_EQ(counted, targets);
    }
  }
}

TEST_F(Conversations, DoNotDependOnMicroBatchesAndChangeTheirOrderEachEpoch) {
  std::vector<Ids> all;
  for (int i = 0; i < 12; ++i) all.push_back(Pair(6, 5));  // each fills a window
  const TokenFile file = Write(all);
  const ConversationTable table_of_whole = TableByMarks(file, kChat);
  PackedConversations whole(file, table_of_whole, {4, 14, 1}, 1, Order::kShuffled);
  const ConversationTable table_of_halves = TableByMarks(file, kChat);
  PackedConversations halves(file, table_of_halves, {2, 14, 2}, 1, Order::kShuffled);
  ASSERT_EQ(whole.windows(), 12);
  Ids first, second;
  for (uint64_t step = 0; step < 6; ++step) {
    const Batch batch = Filled(whole, step);
    Ids both = Filled(halves, step, 0).inputs;
    const Ids rest = Filled(halves, step, 1).inputs;
    both.insert(both.end(), rest.begin(), rest.end());
    EXPECT_EQ(batch.inputs, both);
    Ids& epoch = step < 3 ? first : second;
    epoch.insert(epoch.end(), both.begin(), both.end());
  }
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, second);
}

TEST_F(Conversations, WhatIsLongerThanAWindowIsCutAndWhatHasNoAnswerLeftOut) {
  Ids no_answer = {kUser, 9, 9, kChat.end}, late = Pair(20, 3);
  const TokenFile file = Write({Pair(3, 10), no_answer, late, {}});
  const ConversationTable table_of_sampler = TableByMarks(file, kChat);
  PackedConversations sampler(file, table_of_sampler, {1, 8, 1}, 0, Order::kOnce);
  EXPECT_EQ(sampler.conversations(), 1);  // the late answer begins behind the window
  EXPECT_EQ(sampler.cut(), 1);
  EXPECT_EQ(sampler.windows(), 1);
  EXPECT_EQ(sampler.Targets(0), 3);  // of 8 inputs 5 come before the answer
}

TEST_F(Conversations, NoAnswerAtAllIsAnError) {
  const TokenFile file = Write({{kUser, 9, kChat.end}});
  EXPECT_TRUE(
      Contains(ErrorOf([&] {
                 PackedConversations(file, TableByMarks(file, kChat), {1, 8, 1}, 0, Order::kOnce);
               }),
               "t.bin: no answers", "no conversation has an answer in its first 8 tokens"));
}

// A file of random tokens: nothing is read outside of it.
TEST_F(Conversations, ABrokenFileIsStillReadInside) {
  const std::vector<Ids> files = {{1}, {2, 1}, {1, 5}, {0, 0, 1, 5, 0}, {1, 1, 2, 2, 1, 7}};
  for (const Ids& ids : files) {
    WriteTokens(At("t.bin"), TokenWidth::k16, ids);
    const TokenFile file(At("t.bin").string(), TokenWidth::k16, 10);
    try {
      const ConversationTable table_of_sampler = TableByMarks(file, kChat);
      PackedConversations sampler(file, table_of_sampler, {2, 3, 1}, 0, Order::kShuffled);
      Filled(sampler, 7);
    } catch (const Error&) {
    }
  }
}

TEST_F(Conversations, ATableIsReadAsItWasWritten) {
  ConversationTable table;
  table.Add(9, 1, std::vector<AnswerTokens>{{2, 4}, {4, 9}});
  table.Add(3, 0, {});
  table.Add(5, 2, std::vector<AnswerTokens>{{4, 5}});
  const std::string bytes = table.Bytes();
  const ConversationTable again = ConversationTable::FromBytes(bytes, "t", 20);
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[2].begin, 13);
  EXPECT_EQ(again[2].tokens, 5);
  EXPECT_EQ(std::vector(again[0].answers.begin(), again[0].answers.end()),
            (std::vector<AnswerTokens>{{2, 4}, {4, 9}}));
  EXPECT_TRUE(again[1].answers.empty());
  EXPECT_EQ(again.Bytes(), bytes);
}

// Any other table would refer to tokens that do not exist.
TEST_F(Conversations, ABrokenTableIsRefused) {
  const auto refused = [](const std::vector<uint32_t>& numbers, int64_t tokens, const char* cause) {
    std::string bytes;
    for (const uint32_t number : numbers) {
      for (int i = 0; i < 4; ++i) bytes += static_cast<char>(number >> 8 * i & 0xFF);
    }
    EXPECT_TRUE(Contains(ErrorOf([&] { ConversationTable::FromBytes(bytes, "t.answers", tokens); }),
                         "t.answers", cause));
  };
  refused({9, 1}, 10, "ends in the middle");
  refused({9, 1, 2, 1, 3}, 10, "ends in the middle");
  refused({9, 1, 0xFFFFFFFF}, 10, "ends in the middle");
  refused({9, 1, 1, 0, 3}, 10, "out of range");
  refused({9, 1, 1, 3, 3}, 10, "out of range");
  refused({9, 1, 1, 3, 10}, 10, "out of range");
  refused({9, 1, 2, 3, 6, 5, 7}, 10, "out of range");
  refused({9, 1, 1, 3, 9}, 11, "number of tokens in its conversations");
  refused({9, 1, 1, 3, 9}, 9, "number of tokens in its conversations");
  refused({0xFFFFFFFF, 0xFFFFFFFF, 0}, 9, "number of tokens in its conversations");
}

// Templates of other programs begin an answer with several tokens, each of which has other uses.
TEST_F(Conversations, AnswersBeginBehindAllOfTheirTokens) {
  const ChatMarks chat = {.border = 0, .answer = {1, 1, 5}, .end = 2};
  const TokenFile tokens = Write({{1, 1, 7, 2, 1, 1, 1, 5, 8, 9, 2}, {1, 1}, {5, 1, 1, 5, 5, 2}});
  EXPECT_EQ(PositionsOfConversations(TableByMarks(tokens, chat)), (std::vector<int64_t>{10, 5}));
  EXPECT_EQ(FirstQuestion(tokens, TableByMarks(tokens, chat), 7), (Ids{5, 1, 1, 5}));
  EXPECT_EQ(FirstQuestion(tokens, TableByMarks(tokens, chat), 8), (Ids{1, 1, 7, 2, 1, 1, 1, 5}));
  const ConversationTable table_of_sampler = TableByMarks(tokens, chat);
  PackedConversations sampler(tokens, table_of_sampler, {1, 20, 1}, 0, Order::kOnce);
  EXPECT_EQ(sampler.Targets(0), 3 + 2);
}

}  // namespace
}  // namespace folio
