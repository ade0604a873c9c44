#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/visible_text.h"
#include "folio/lesson/walk_parts.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/split.h"

namespace folio {
namespace {

// Only this many pretokens, up to kLongestFollowed bytes long, are shown merge by merge.
constexpr size_t kPretokensShown = 8;
constexpr size_t kLongestFollowed = 64;  // bytes

// Whole numbers with labels for their meaning.
Matrix Integers(std::vector<double> numbers, std::vector<std::string> labels) {
  return Plain(RowValues(std::move(numbers), {.columns = std::move(labels)}), 0);
}

std::vector<std::string> Shown(const std::vector<std::string_view>& parts) {
  std::vector<std::string> labels;
  for (const std::string_view part : parts) labels.push_back(VisibleToken(part));
  return labels;
}

std::vector<std::string> Shown(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> labels;
  for (const int32_t id : ids) labels.push_back(IdLabel(tokenizer, id));
  return labels;
}

void AddCharacters(std::string_view text, Report& walk) {
  std::vector<double> numbers;
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size(); at += characters.back().size()) {
    const Utf8Char c = DecodeUtf8(text, at);
    numbers.push_back(static_cast<double>(c.code));
    characters.push_back(text.substr(at, c.length));
  }
  walk.AddNumbers("characters", "bytes → code points", Integers(numbers, Shown(characters)),
                  "This tokenizer has one token for each character that it met in training: code "
                  "points are the numbers that Unicode gives them.");
}

// "h e [ll] o", the new symbol in brackets.
std::string Symbols(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t merged_at,
                    int32_t merged) {
  std::vector<std::string> symbols;
  for (size_t i = 0; i < ids.size(); ++i) {
    symbols.push_back(i == merged_at ? fmt::format("[{}]", IdLabel(tokenizer, merged))
                                     : IdLabel(tokenizer, ids[i]));
    if (i == merged_at) ++i;
  }
  return Join(symbols, " ");
}

void AddMerges(const BpeTokenizer& tokenizer, std::string_view pretoken, Report& walk) {
  std::vector<int32_t> ids;
  tokenizer.EncodePrefix(pretoken, ids);
  const std::vector<BpeTokenizer::MergeStep> merges = tokenizer.Explain(pretoken);
  const std::string name = fmt::format("merges of “{}”", VisibleToken(pretoken));
  const bool whole = ids.size() == 1 && (merges.empty() || merges.back().merged != ids.front());
  if (merges.empty() || whole) {
    walk.AddNumbers(
        name, "no merge", Integers({ids.begin(), ids.end()}, Shown(tokenizer, ids)),
        whole
            ? "The whole piece is in the vocabulary, and is looked up there."
            : "No two neighbours are in the list of merges: every byte stays a token of its own.");
    return;
  }
  std::vector<std::vector<double>> rows;
  std::vector<std::string> labels;
  for (const auto& [before, at, merged, rank] : merges) {
    rows.push_back({static_cast<double>(rank), static_cast<double>(before[at]),
                    static_cast<double>(before[at + 1]), static_cast<double>(merged)});
    labels.push_back(Symbols(tokenizer, before, at, merged));
  }
  walk.AddNumbers(
      name,
      fmt::format("{} → {} token{}", Symbols(tokenizer, merges.front().before, pretoken.size(), 0),
                  ids.size(), ids.size() == 1 ? "" : "s"),
      Plain(StackedValues(rows,
                          {.rows = std::move(labels), .columns = {"rank", "left", "right", "new"}}),
            0),
      "Of all neighbours the pair that training merged first, the one of the lowest rank, becomes "
      "one symbol, again and again, until no pair is in the list.");
}

void AddPretokens(const BpeTokenizer& tokenizer, std::string_view text, Report& walk) {
  std::vector<std::string_view> pretokens, known;  // known: special tokens, and those shown
  ForEachPretoken(tokenizer, text, SpecialRule::Allow(),
                  [&](std::string_view bytes, const SpecialToken* special) {
                    pretokens.push_back(bytes);
                    if (special != nullptr) known.push_back(bytes);
                  });
  std::vector<double> sizes;
  for (const std::string_view pretoken : pretokens) {
    sizes.push_back(static_cast<double>(pretoken.size()));
  }
  std::string why =
      "First the text is cut where words, numbers and punctuation meet, so that no token ever "
      "reaches across; a space belongs to the word behind it. The numbers are bytes.";
  if (!known.empty()) {
    why += fmt::format(" {} in it: such a token is taken whole and never made of others.",
                       known.size() == 1 ? "There is a special token" : "Special tokens are");
  }
  walk.AddNumbers("pieces",
                  fmt::format("the pattern of {}", SplitPatternName(tokenizer.vocab().pattern)),
                  Integers(sizes, Shown(pretokens)), std::move(why));
  size_t shown = 0;
  for (const std::string_view pretoken : pretokens) {
    const bool again = std::ranges::find(known, pretoken) != known.end();
    if (again || pretoken.size() < 2 || pretoken.size() > kLongestFollowed) continue;
    known.push_back(pretoken);
    AddMerges(tokenizer, pretoken, walk);
    if (++shown == kPretokensShown) break;
  }
}

}  // namespace

Report ExplainTokenize(const Tokenizer& tokenizer, std::string_view text) {
  if (text.empty()) throw InputError("text: no tokens", {}, "give a text");
  const std::vector<int32_t> ids = tokenizer.Encode(text, "text", SpecialRule::Allow());
  if (tokenizer.Decode(ids) != text) {
    throw InputError("text: decoding its tokens gives a different text",
                     "the tokenizer normalises it, or has no token for a part of it",
                     "try another text");
  }
  Report walk{
      .topic = "tokenize",
      .title = "Tokens: from text to the numbers that a model reads",
      .intro =
          "A model knows no letters, only the numbers of its vocabulary. A tokenizer cuts the text "
          "into parts that have a number, and every text can be put together again from them."};
  std::vector<double> bytes;
  std::vector<std::string_view> letters;
  for (size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(static_cast<unsigned char>(text[i]));
    letters.push_back(text.substr(i, 1));
  }
  walk.AddNumbers("bytes", "UTF-8", Integers(bytes, Shown(letters)),
                  "What a text is to a computer: bytes from 0 to 255. A letter of English is one "
                  "byte, other characters are two to four.");
  if (tokenizer.kind() == "char") AddCharacters(text, walk);
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe != nullptr) AddPretokens(*bpe, text, walk);
  walk.Add("ids", fmt::format("0 to {}", tokenizer.vocab_size() - 1),
           Integers({ids.begin(), ids.end()}, Shown(tokenizer, ids)),
           tokenizer.kind() == "bytes"
               ? "Every byte is the token of its own number: nothing to learn and no text that "
                 "cannot be written, but many tokens."
               : "The place of each token in the vocabulary: all that the model gets to see.",
           FigureKind::kTokens);
  const auto size = static_cast<double>(text.size()), tokens = static_cast<double>(ids.size());
  walk.AddNumbers(
      "sizes", "text = the bytes of all tokens, one after the other",
      Integers({size, static_cast<double>(CountCharacters(text)), tokens},
               {"bytes", "characters", "tokens"}),
      fmt::format("Put together, the bytes of the tokens are the text again; fewer tokens mean "
                  "that more text fits into the model's context: {:.1f} bytes a token here.",
                  size / tokens));
  return walk;
}

}  // namespace folio
