// JSON and tokenizers when memory runs out: each allocation fails in turn.

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "failing_new.h"
#include "folio/io/json.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/test_vocab.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

constexpr char kText[] =
    R"({"nothing":null,"yes":true,"n":[1,-2,18446744073709551615,0.5],"long":"more than sixteen bytes of a text",)"
    R"("deep":{"er":[[[{"the key of a member, which is long":["and a text of some length",[],{}]}]]]},)"
    R"("many":["a text that is allocated","another one, as long","and a third of this kind",[1,[2,[3]]]]})";

class MemoryOfJson : public testing::Test {
 protected:
  // Complete and unchanged.
  void Same() { EXPECT_EQ(value_.dump(), kText); }

  const Json value_ = ParseJson(kText, "test");
};

TEST_F(MemoryOfJson, ReadingEndsWithAnErrorAndLeavesNothing) {
  std::string read;
  const int64_t before = LiveBytes();
  const int64_t calls = WithEachFailing(
      NewOf::kThisThread,
      [&] {
        read.clear();
        read = ParseJson(kText, "test").dump();
      },
      [] {});
  EXPECT_EQ(read, kText);
  EXPECT_GT(calls, 80);
  std::string().swap(read);
  EXPECT_EQ(LiveBytes(), before);
}

TEST_F(MemoryOfJson, CopiesAreWholeOrAsTheyWere) {
  const int64_t before = LiveBytes();
  {
    Json copy = Json::array({"the text that is there before", Json{{"a", 1}}});
    const std::string old = copy.dump();
    const int64_t calls = WithEachFailing(
        NewOf::kThisThread,
        [&] {
          const Json other(value_);
          copy = value_;
        },
        [&] {
          Same();
          EXPECT_TRUE(copy == value_ || copy.dump() == old) << copy.dump();
        });
    EXPECT_TRUE(copy == value_);
    EXPECT_GT(calls, 40);
    // A part of a value may replace it.
    copy = copy["deep"];
    EXPECT_EQ(copy.dump(), value_["deep"].dump());
  }
  EXPECT_EQ(LiveBytes(), before);
}

TEST_F(MemoryOfJson, ChangesKeepWhatIsThere) {
  const int64_t before = LiveBytes();
  {
    Json changed;
    const int64_t calls = WithEachFailing(
        NewOf::kThisThread,
        [&] {
          changed = value_;
          changed["n"] = value_["many"];
          changed["a key that is new, and a long one"] = value_;
          changed["list"].push_back(value_);
          changed["list"].push_back("a text that is as long as is needed");
          changed.update({{"yes", value_["deep"]}, {"another new key of some length", value_}});
          changed.Add("the last", Json::array({value_, Json{{"x", value_}}}));
        },
        [&] {
          Same();
          const std::string text = changed.dump();
          EXPECT_EQ(ParseJson(text, "the changed value").dump(), text);
          if (!changed.is_object()) return;
          for (const char* key : {"nothing", "long", "deep", "many"}) {
            EXPECT_TRUE(changed[key] == value_[key]) << key << " of " << text;
          }
        });
    EXPECT_TRUE(changed["the last"][1]["x"] == value_);
    EXPECT_GT(calls, 200);
  }
  EXPECT_EQ(LiveBytes(), before);
}

TEST_F(MemoryOfJson, WritingEndsWithAnError) {
  const int64_t before = LiveBytes();
  std::string dumped, written;
  WithEachFailing(
      NewOf::kThisThread,
      [&] {
        dumped.clear();
        written.clear();
        dumped = value_.dump(2);
        JsonWriter json(written);
        json.BeginObject().Key("value").Value(value_).Key("text \xFF\x01\n").Text("\"\\\xC3\xA9");
        json.Key("ids").Array(std::span<const int32_t>(std::array{1, -2})).Key("none");
        json.BeginArray().EndArray().EndObject();
      },
      [&] { Same(); });
  EXPECT_EQ(ParseJson(dumped, "dumped").dump(), kText);
  EXPECT_EQ(written, std::string(R"({"value":)") + kText +
                         R"(,"text �\u0001\n":"\"\\é","ids":[1,-2],"none":[]})");
  EXPECT_EQ(ParseJson(written, "written").dump(), written);
  std::string().swap(dumped);
  std::string().swap(written);
  EXPECT_EQ(LiveBytes(), before);
}

// The factor that serve/http.h assumes.
TEST_F(MemoryOfJson, OfATextIsABoundedMultipleOfIt) {
  constexpr size_t kBytes = kSanitized ? 1 << 18 : 1 << 20;
  for (const char* part : {"0,", "[],", "[[],[],[]],", "{},", "[0],", "[[0]],", "{\"\":0},",
                           "\"\",", "1.5,", "\"a text of more than sixteen bytes\",", "null,"}) {
    std::string text = "[";
    while (text.size() < kBytes) text += part;
    text += "0]";
    const int64_t before = LiveBytes();
    ResetPeakLiveBytes();
    const Json value = ParseJson(text, "test");
    EXPECT_LE(PeakLiveBytes() - before, 61 * static_cast<int64_t>(text.size())) << part;
    EXPECT_GT(value.size(), 100u);
  }
}

TEST_F(MemoryOfJson, ALimitOfValuesIsOne) {
  JsonSource source{.name = "the text", .most_values = 4};
  EXPECT_EQ(ParseJsonFrom(source, "[1,[2]]").size(), 2u);
  EXPECT_THROW(ParseJsonFrom(source, "[1,[2],3]"), Error);
}

// Ids, and their text.
void Holds(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> right = tokenizer.Encode(text, "test", SpecialRule::Allow());
  std::vector<int32_t> ids;
  std::string decoded;
  const auto work = [&] {
    ids = tokenizer.Encode(text, "test", SpecialRule::Allow());
    decoded = tokenizer.DecodeText(ids);
    EXPECT_EQ(DecodeWithOffsets(tokenizer, ids).bytes.size(), ids.size());
  };
  work();  // everything that is cached is cached now
  const int64_t before = LiveBytes();
  const int64_t calls = WithEachFailing(NewOf::kThisThread, work, [&] {
    EXPECT_EQ(tokenizer.Encode(text, "test", SpecialRule::Allow()), right);
  });
  EXPECT_GT(calls, 10) << tokenizer.kind();
  EXPECT_EQ(ids, right);
  EXPECT_EQ(decoded, text);
  EXPECT_LE(LiveBytes(), before + static_cast<int64_t>(ids.capacity() * sizeof(int32_t)));
}

// With malloc and related functions, for all threads: caches do not use operator new.
size_t AllocatedBytes() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

class MemoryOfTokenizers : public testing::Test {
 protected:
  // Long enough for caches, with pretokens of every length, one of them longer than any other.
  static std::string Text() {
    TestRng rng(3);
    std::string text;
    while (text.size() < 90000) {
      text += RandomText({"a", "b", "c", "ab", "e", "\xD0\xB6", "-", "'s"}, 1 + rng.Below(30), rng);
      text += rng.Below(9) == 0 ? "\n" : " ";
    }
    return text + std::string(70000, 'a');
  }
};

TEST_F(MemoryOfTokenizers, LearntOnesEncodeAndDecode) {
  BpeVocab vocab = LearntVocab(1, 400);
  AddSpecial(vocab, "<|end|>");
  Holds(BpeTokenizer(vocab), Text() + "<|end|>and more");
}

TEST_F(MemoryOfTokenizers, OnesOfWholePretokensEncodeAndDecode) {
  BpeVocab vocab = LearntVocab(2, 350);
  AddWords(vocab, 50, 4);
  Holds(BpeTokenizer(std::move(vocab)), Text());
}

TEST_F(MemoryOfTokenizers, BytesAndCharactersEncodeAndDecode) {
  Holds(ByteTokenizer(), "h\xC3\xA9llo <|endoftext|> again");
  const std::string text = "to be or not to be, \xC3\xA9";
  Holds(CharTokenizer({' ', ',', 'b', 'e', 'n', 'o', 'r', 't', 0xE9}), text);
}

// Whatever the number of encoding threads: there are as many caches as computing threads.
TEST_F(MemoryOfTokenizers, KeepNoMoreThanThreadsThatComputeNeed) {
  const BpeTokenizer tokenizer(LearntVocab(1, 400));
  const std::string text = Text();
  const auto at_once = [&](int threads) {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        for (int turn = 0; turn < 3; ++turn) tokenizer.Count(text);
      });
    }
    for (std::thread& thread : all) thread.join();
  };
  at_once(8);
  const size_t before = AllocatedBytes();
  at_once(48);
  EXPECT_LE(AllocatedBytes(), before + (4 << 20));
}

}  // namespace
}  // namespace folio
