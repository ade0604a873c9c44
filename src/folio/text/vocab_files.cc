#include "folio/text/vocab_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/text/encodings.h"
#include "folio/text/vocab_builder.h"

namespace folio {
namespace {

// Takes the first line away and returns it, without what ends it.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void AddMerges(std::string_view text, const std::string& path, VocabBuilder& builder) {
  int64_t number = 0;  // of the line
  const auto where = [&] { return fmt::format("{}:{}", path, number); };
  while (!text.empty()) {
    ++number;
    const std::string_view line = TakeLine(text);
    if (number == 1 && line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos) {
      constexpr size_t kShown = 60;
      throw InputError(fmt::format("{}: not a merge", where()),
                       fmt::format("expected two tokens with a space between, found {}",
                                   line.empty() ? "an empty line"
                                   : line.size() > kShown || FindInvalidUtf8(line) != line.npos
                                       ? fmt::format("{} bytes of something else", line.size())
                                       : fmt::format("'{}'", line)),
                       "copy the file again from where it was published");
    }
    builder.AddMerge(line.substr(0, space), line.substr(space + 1), where);
  }
}

void AddSpecials(const std::string& path, VocabBuilder& builder) {
  const std::string json = ReadFile(path, kMaxVocabFileBytes);
  JsonReader reader(json, TokenizerSource(path));
  const NamedIds ids = ReadNamedIds(reader);
  reader.ExpectEnd();
  for (const NamedIds::Entry& entry : ids.entries) {
    if (entry.length == 0) throw InputError(fmt::format("{}: a token is empty", path));
    builder.AddSpecial({std::string(ids.name(entry)), entry.id});
  }
}

constexpr size_t kMaxTokenBytes = 1024;  // published ones have at most 128

constexpr std::array<int8_t, 256> kDigits = [] {
  std::array<int8_t, 256> digits{};
  digits.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return digits;
}();

// Appends the bytes of a padded base64 text (RFC 4648, section 4); false unless it is the one that
// an encoder writes.
bool AppendBase64(std::string_view text, std::string& bytes) {
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t digits = text.size() - padding;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = i < digits ? kDigits[static_cast<uint8_t>(text[i])] : 0;
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int byte = 0; byte < 3; ++byte) bytes += static_cast<char>(bits >> (16 - 8 * byte) & 0xFF);
    bits = 0;
  }
  // The bits that the padding stands for must be zero.
  for (size_t i = 0; i < padding; ++i) {
    if (bytes.back() != '\0') return false;
    bytes.pop_back();
  }
  return true;
}

class TiktokenReader {
 public:
  TiktokenReader(const std::string& path, const PublishedEncoding& encoding)
      : path_(path), encoding_(encoding), place_(static_cast<size_t>(encoding.ranks)) {}

  // The tokens of all ranks; those of special tokens are empty.
  ByteStrings Read(std::string_view text) {
    ByteStrings lines;
    lines.Reserve(place_.size(), text.size());
    std::string bytes;
    while (!text.empty()) {
      ++line_;
      bytes.clear();
      Place(Line(TakeLine(text), bytes));
      lines.Add(bytes);
    }
    return ByRank(lines);
  }

 private:
  [[noreturn]] void Refuse(const std::string& what, std::string cause) const {
    throw InputError(what, std::move(cause),
                     fmt::format("fetch it again: folio tokenizer fetch {}", encoding_.name));
  }
  [[noreturn]] void RefuseLine(const std::string& what, std::string cause) const {
    Refuse(fmt::format("{}:{}: {}", path_, line_, what), std::move(cause));
  }
  bool IsSpecial(size_t rank) const {
    return std::ranges::any_of(encoding_.specials, [&](const SpecialToken& token) {
      return static_cast<size_t>(token.id) == rank;
    });
  }

  // Appends the token's bytes and returns its rank.
  size_t Line(std::string_view line, std::string& bytes) const {
    const size_t space = line.find(' ');
    if (space == line.npos) RefuseLine("not a token", "expected its bytes in base64 and its rank");
    if (space > 4 * kMaxTokenBytes / 3 || !AppendBase64(line.substr(0, space), bytes)) {
      RefuseLine("not a token",
                 fmt::format("its bytes, at most {}, are not in padded base64", kMaxTokenBytes));
    }
    size_t rank = 0;
    const char* last = line.data() + line.size();
    const auto [end, error] = std::from_chars(line.data() + space + 1, last, rank);
    if (error != std::errc() || end != last || rank >= place_.size()) {
      RefuseLine("no such rank", fmt::format("expected an integer from 0 to {} behind the space",
                                             place_.size() - 1));
    }
    return rank;
  }

  void Place(size_t rank) {
    if (place_[rank] != 0) {
      RefuseLine(fmt::format("rank {} again", rank), fmt::format("it is on line {}", place_[rank]));
    }
    if (IsSpecial(rank)) {
      RefuseLine(fmt::format("rank {} is not free", rank), "it is the id of a special token");
    }
    place_[rank] = line_;
  }

  ByteStrings ByRank(const ByteStrings& lines) const {
    ByteStrings tokens;
    tokens.Reserve(static_cast<size_t>(encoding_.vocab_size), lines.total_bytes() + 1024);
    for (size_t rank = 0; rank < place_.size(); ++rank) {
      if (place_[rank] == 0 && !IsSpecial(rank)) {
        Refuse(fmt::format("{}: rank {} is missing", path_, rank),
               fmt::format("{} has {} ids for tokens, the file {} lines", encoding_.name,
                           WithCommas(encoding_.ranks), WithCommas(static_cast<int64_t>(line_))));
      }
      tokens.Add(place_[rank] == 0 ? std::string_view() : lines[place_[rank] - 1]);
    }
    return tokens;
  }

  const std::string& path_;
  const PublishedEncoding& encoding_;
  std::vector<size_t> place_;  // the line of each rank, from 1; 0 if none
  size_t line_ = 0;
};

}  // namespace

BpeVocab ReadVocabAndMerges(const std::string& vocab_json, const std::string& merges_txt,
                            const VocabBeside& beside) {
  const std::string json = ReadFile(vocab_json, kMaxVocabFileBytes);
  JsonReader reader(json, TokenizerSource(vocab_json));
  const NamedIds ids = ReadNamedIds(reader);
  reader.ExpectEnd();
  VocabBuilder builder(ids, vocab_json, VocabBuilder::Specials::kUnmade);
  if (!beside.added_tokens.empty()) AddSpecials(beside.added_tokens, builder);
  AddMerges(ReadFile(merges_txt, kMaxVocabFileBytes), merges_txt, builder);
  BpeVocab vocab = builder.Finish();
  const PublishedEncoding* encoding = FindPublishedEncoding(beside.name);
  if (encoding == nullptr) return vocab;
  if (static_cast<int64_t>(vocab.tokens.size()) != encoding->vocab_size ||
      vocab.specials != encoding->specials) {
    throw InputError(
        fmt::format("{}: not the vocabulary of {}", vocab_json, encoding->name),
        fmt::format("expected {} ids, {} of them special; {} and {} give {} and {}",
                    WithCommas(encoding->vocab_size), encoding->specials.size(), vocab_json,
                    merges_txt, WithCommas(static_cast<int64_t>(vocab.tokens.size())),
                    vocab.specials.size()),
        fmt::format("folio tokenizer fetch {}", encoding->name));
  }
  vocab.name = encoding->name;
  return vocab;
}

BpeVocab ReadTiktoken(const std::string& path, const std::string& name) {
  const PublishedEncoding* encoding = FindPublishedEncoding(name);
  if (encoding == nullptr) {
    throw InputError(
        fmt::format("{}: the encoding is not known", path),
        fmt::format("'{}' is not one of {}", name, Join(PublishedEncodingNames(), ", ")),
        "a .tiktoken file says neither pattern nor special tokens: name it for its "
        "encoding, as cl100k_base.tiktoken");
  }
  const ByteStrings ranked =
      TiktokenReader(path, *encoding).Read(ReadFile(path, kMaxVocabFileBytes));
  BpeVocab vocab{.name = std::string(encoding->name),
                 .pattern = encoding->pattern,
                 .specials = encoding->specials};
  vocab.tokens.Reserve(static_cast<size_t>(encoding->vocab_size), ranked.total_bytes() + 1024);
  auto special = vocab.specials.begin();
  for (size_t id = 0; id < static_cast<size_t>(encoding->vocab_size); ++id) {
    const bool is_special =
        special != vocab.specials.end() && static_cast<size_t>(special->id) == id;
    vocab.tokens.Add(is_special           ? std::string_view((special++)->text)
                     : id < ranked.size() ? ranked[id]
                                          : std::string_view());
  }
  CheckBpeVocab(vocab, path);
  vocab.merges = MergesFromRanks(ranked, encoding->ranks);
  // A whole pretoken is looked up first, which matters only if there are tokens that no merge
  // makes.
  constexpr int64_t kBytes = 256;
  const auto specials = std::ranges::count_if(
      vocab.specials, [&](const SpecialToken& token) { return token.id < encoding->ranks; });
  vocab.whole_pretokens = std::ssize(vocab.merges) + kBytes + specials < encoding->ranks;
  return vocab;
}

}  // namespace folio
