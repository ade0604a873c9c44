#include "folio/infer/text_writer.h"

#include <gtest/gtest.h>

#include "folio/model/test_models.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/test_vocab.h"

namespace folio {
namespace {

std::unique_ptr<Tokenizer> Letters() {
  CharSetBuilder characters;
  characters.Add("abc");
  return characters.Build();
}

TEST(TextWriter, ShowsTokensThatTheTokenizerLacksAsUnknown) {
  EXPECT_EQ(TextOf(*Letters(), std::vector<int32_t>{0, 17, 2}), "a\uFFFDc");
}

// Models whose vocabulary is padded, continued after their last id, which has no token.
void ExpectOnlyTokens(const Tokenizer& tokenizer, int64_t vocab_size) {
  GptConfig config = TinyConfig();
  config.vocab_size = vocab_size;
  GptWeights weights(config);
  Scatter(weights, 1);
  const auto backend = MakeBackend("cpu");
  Generator generator(*backend, weights);
  const std::vector<bool> with = IdsWithTokens(tokenizer);
  for (const double temperature : {0.0, 3.0}) {
    std::string shown;
    const WrittenText written =
        WriteText(generator, tokenizer, {static_cast<int32_t>(vocab_size - 1)},
                  {.sampling = {.temperature = temperature, .seed = 1}, .max_tokens = 20}, 0,
                  [&](std::string_view text) {
                    shown += text;
                    return true;
                  });
    EXPECT_TRUE(written.ids.size() == 20u || written.reason == FinishReason::kStop);
    for (const int32_t id : written.ids) {
      ASSERT_LT(static_cast<size_t>(id), with.size());
      EXPECT_TRUE(with[static_cast<size_t>(id)]) << id;
    }
    EXPECT_EQ(written.text, TextOf(tokenizer, written.ids));
    EXPECT_EQ(shown, written.text);
  }
}

TEST(TextWriter, IdsBeyondTheTokenizerAreNeverChosen) {
  ExpectOnlyTokens(*Letters(), 20);
}

TEST(TextWriter, IdsWithoutATokenAmongOthersAreNeverChosen) {
  BpeVocab vocab = MakeTestVocab({}, {});
  for (int i = 0; i < 500; ++i) vocab.tokens.Add("");
  vocab.tokens.Add("<end>");
  vocab.specials.push_back({"<end>", static_cast<int32_t>(vocab.tokens.size()) - 1});
  CheckBpeVocab(vocab, "test");
  ExpectOnlyTokens(BpeTokenizer(vocab), static_cast<int64_t>(vocab.tokens.size()) + 11);
}

}  // namespace
}  // namespace folio
