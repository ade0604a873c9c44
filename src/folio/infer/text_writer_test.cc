#include "folio/infer/text_writer.h"

#include <gtest/gtest.h>

#include "folio/model/test_models.h"
#include "folio/text/char_tokenizer.h"

namespace folio {
namespace {

// A model of 20 tokens, of which the tokenizer knows the first three.
TEST(TextWriter, ShowsTokensThatTheTokenizerLacksAsUnknown) {
  CharSetBuilder characters;
  characters.Add("abc");
  const auto tokenizer = characters.Build();
  EXPECT_EQ(TextOf(*tokenizer, std::vector<int32_t>{0, 17, 2}), "a\uFFFDc");
  GptConfig config = TinyConfig();
  config.vocab_size = 20;
  GptWeights weights(config);
  Scatter(weights, 1);
  const auto backend = MakeBackend("cpu");
  Generator generator(*backend, weights);
  std::string shown;
  const WrittenText written =
      WriteText(generator, *tokenizer, {0}, {.sampling = {.seed = 1}, .max_tokens = 20}, 0,
                [&](std::string_view text) {
                  shown += text;
                  return true;
                });
  EXPECT_EQ(written.ids.size(), 20u);
  EXPECT_EQ(written.text, TextOf(*tokenizer, written.ids));
  EXPECT_EQ(shown, written.text);
  EXPECT_NE(shown.find("\uFFFD"), shown.npos);
}

}  // namespace
}  // namespace folio
