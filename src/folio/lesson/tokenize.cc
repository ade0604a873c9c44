#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/lesson/explain_tokens.h"
#include "folio/lesson/walk_parts.h"
#include "folio/plot/token_strip.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/split.h"

namespace folio {
namespace {

// Only so many pretokens, up to so many bytes long, are shown merge by merge.
constexpr size_t kPretokensShown = 8;
constexpr size_t kLongestFollowed = 64;  // bytes

// Whole numbers with what they stand for.
Matrix Integers(std::vector<double> numbers, std::vector<std::string> labels) {
  return Plain(RowValues(std::move(numbers), {.columns = std::move(labels)}), 0);
}

std::string Plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

class TokenizeWalk {
 public:
  TokenizeWalk(const Tokenizer& tokenizer, std::string_view text)
      : tokenizer_(tokenizer),
        bpe_(dynamic_cast<const BpeTokenizer*>(&tokenizer)),
        text_(text),
        ids_(tokenizer.Encode(text, "text", SpecialRule::Allow())) {}

  Report Make() {
    walk_.topic = "tokenize";
    walk_.title = "Tokens: from text to the numbers that a model reads";
    walk_.intro =
        "A model knows no letters, only the numbers of its vocabulary. A tokenizer cuts the text "
        "into parts that have a number, and every text can be put together again from them.";
    Bytes();
    if (tokenizer_.kind() == "char") Characters();
    if (bpe_ != nullptr) Pretokens();
    Ids();
    Sizes();
    return std::move(walk_);
  }

 private:
  void Bytes() {
    std::vector<double> numbers;
    std::vector<std::string> labels;
    for (size_t i = 0; i < text_.size(); ++i) {
      numbers.push_back(static_cast<unsigned char>(text_[i]));
      labels.push_back(VisibleToken(text_.substr(i, 1)));
    }
    walk_.AddNumbers(
        "bytes", "UTF-8", Integers(numbers, std::move(labels)),
        "What a text is to a computer: bytes from 0 to 255. A letter of English is one byte, "
        "other characters are two to four.");
  }

  void Characters() {
    std::vector<double> numbers;
    std::vector<std::string> labels;
    for (size_t at = 0; at < text_.size();) {
      const Utf8Char c = DecodeUtf8(text_, at);
      numbers.push_back(static_cast<double>(c.code));
      labels.push_back(VisibleToken(text_.substr(at, c.length)));
      at += c.length;
    }
    walk_.AddNumbers(
        "characters", "bytes → code points", Integers(numbers, std::move(labels)),
        "This tokenizer has one token for each character that it met in training: code "
        "points are the numbers that Unicode gives them.");
  }

  bool IsSpecial(std::string_view pretoken) const {
    return std::ranges::find(specials_, pretoken) != specials_.end();
  }

  void Pretokens() {
    std::vector<std::string_view> pretokens;
    ForEachPretoken(tokenizer_, text_, SpecialRule::Allow(),
                    [&](std::string_view bytes, const SpecialToken* special) {
                      pretokens.push_back(bytes);
                      if (special != nullptr) specials_.push_back(bytes);
                    });
    std::vector<double> sizes;
    std::vector<std::string> labels;
    for (const std::string_view pretoken : pretokens) {
      sizes.push_back(static_cast<double>(pretoken.size()));
      labels.push_back(VisibleToken(pretoken));
    }
    std::string why =
        "First the text is cut where words, numbers and punctuation meet, so that no token ever "
        "reaches across; a space belongs to the word behind it. The numbers are bytes.";
    if (!specials_.empty()) {
      why += fmt::format(" {} in it: such a token is taken whole and never made of others.",
                         specials_.size() == 1 ? "There is a special token" : "Special tokens are");
    }
    walk_.AddNumbers("pieces",
                     fmt::format("the pattern of {}", SplitPatternName(bpe_->vocab().pattern)),
                     Integers(sizes, std::move(labels)), std::move(why));
    std::vector<std::string_view> shown;
    for (const std::string_view pretoken : pretokens) {
      const bool known = std::ranges::find(shown, pretoken) != shown.end() || IsSpecial(pretoken);
      if (known || pretoken.size() < 2 || pretoken.size() > kLongestFollowed) continue;
      shown.push_back(pretoken);
      Merges(pretoken);
      if (shown.size() == kPretokensShown) break;
    }
  }

  // "h e [ll] o", the new symbol in brackets.
  std::string Symbols(const std::vector<int32_t>& ids, size_t merged_at, int32_t merged) const {
    std::string line;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!line.empty()) line += ' ';
      if (i == merged_at) {
        line += fmt::format("[{}]", IdLabel(tokenizer_, merged));
        ++i;
      } else {
        line += IdLabel(tokenizer_, ids[i]);
      }
    }
    return line;
  }

  void Merges(std::string_view pretoken) {
    std::vector<int32_t> ids;
    bpe_->EncodePrefix(pretoken, ids);
    const std::vector<BpeTokenizer::MergeStep> merges = bpe_->Explain(pretoken);
    const std::string name = fmt::format("merges of “{}”", VisibleToken(pretoken));
    const bool whole = ids.size() == 1 && (merges.empty() || merges.back().merged != ids.front());
    if (merges.empty() || whole) {
      std::vector<std::string> labels;
      for (const int32_t id : ids) labels.push_back(IdLabel(tokenizer_, id));
      walk_.AddNumbers(name, "no merge", Integers({ids.begin(), ids.end()}, std::move(labels)),
                       whole ? "The whole piece is in the vocabulary, and is looked up there."
                             : "No two neighbours are in the list of merges: every byte stays a "
                               "token of its own.");
      return;
    }
    std::vector<std::vector<double>> rows;
    std::vector<std::string> labels;
    for (const auto& [before, at, merged, rank] : merges) {
      rows.push_back({static_cast<double>(rank), static_cast<double>(before[at]),
                      static_cast<double>(before[at + 1]), static_cast<double>(merged)});
      labels.push_back(Symbols(before, at, merged));
    }
    walk_.AddNumbers(
        name,
        fmt::format("{} → {}", Symbols(merges.front().before, pretoken.size(), 0),
                    Plural(std::ssize(ids), "token")),
        Plain(StackedValues(
                  rows, {.rows = std::move(labels), .columns = {"rank", "left", "right", "new"}}),
              0),
        "Of all neighbours the pair that training merged first, the one of the lowest rank, "
        "becomes one symbol, again and again, until no pair is in the list.");
  }

  void Ids() {
    std::vector<std::string> labels;
    for (const int32_t id : ids_) labels.push_back(IdLabel(tokenizer_, id));
    walk_.Add("ids", fmt::format("0 to {}", tokenizer_.vocab_size() - 1),
              Integers({ids_.begin(), ids_.end()}, std::move(labels)),
              tokenizer_.kind() == "bytes"
                  ? "Every byte is the token of its own number: nothing to learn and no text that "
                    "cannot be written, but many tokens."
                  : "The place of each token in the vocabulary: all that the model gets to see.",
              FigureKind::kTokens);
  }

  void Sizes() {
    const std::string back = tokenizer_.Decode(ids_);
    FOLIO_CHECK(back == text_, "the tokens are another text");
    walk_.AddNumbers(
        "sizes", "text = the bytes of all tokens, one after the other",
        Integers({static_cast<double>(text_.size()), static_cast<double>(CountCharacters(text_)),
                  static_cast<double>(ids_.size())},
                 {"bytes", "characters", "tokens"}),
        fmt::format("Put together, the bytes of the tokens are the text again; fewer tokens mean "
                    "that more text fits into the model's context: {:.1f} bytes a token here.",
                    static_cast<double>(text_.size()) / static_cast<double>(ids_.size())));
  }

  const Tokenizer& tokenizer_;
  const BpeTokenizer* bpe_;
  std::string_view text_;
  std::vector<int32_t> ids_;
  std::vector<std::string_view> specials_;
  Report walk_ = {};
};

}  // namespace

Report ExplainTokenize(const Tokenizer& tokenizer, std::string_view text) {
  if (text.empty()) throw InputError("text: no tokens", {}, "give it some text");
  return TokenizeWalk(tokenizer, text).Make();
}

}  // namespace folio
