#include "folio/formats/llmc_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

using TokenizerHeader = std::array<int32_t, 256>;
constexpr int32_t kTokenizerMagic = 20240328, kVersion = 2, kVersionWithoutEnd = 1;
constexpr int32_t kGpt2End = 50256;
constexpr uint64_t kMaxBytes = uint64_t{8} << 20;

// The contents of such a file.
struct StoredTokens {
  std::vector<std::string_view> tokens = {};
  int32_t end = 0;    // of a text
  int32_t added = 0;  // special tokens beside that: the last ones

  bool special(size_t id) const {
    return std::cmp_equal(id, end) || id + static_cast<size_t>(added) >= tokens.size();
  }
  std::vector<std::string> TextsFrom(size_t id) const {
    return {tokens.begin() + id, tokens.end()};
  }
};

StoredTokens ReadStoredTokens(std::string_view bytes, const std::string& path) {
  ByteReader reader(std::as_bytes(std::span(bytes)),
                    fmt::format("{} is not a sound tokenizer of llm.c", path));
  if (reader.Number<int32_t>() != kTokenizerMagic) reader.Fail("it begins with another number");
  const auto version = reader.Number<int32_t>();
  if (version != kVersion && version != kVersionWithoutEnd) {
    reader.Fail(fmt::format("version {} is not known", version));
  }
  const auto count = reader.Number<int32_t>();
  StoredTokens stored{.end = reader.Number<int32_t>(), .added = reader.Number<int32_t>()};
  if (version == kVersionWithoutEnd) {
    stored.end = kGpt2End;
    stored.added = 0;
  }
  reader.Seek(sizeof(TokenizerHeader));
  if (count < 1 || stored.end < 0 || stored.end >= count || stored.added < 0 ||
      stored.added >= count || static_cast<size_t>(count) > reader.left()) {
    reader.Fail(fmt::format("{} tokens, the end of text is {}, beside it {} special tokens", count,
                            stored.end, stored.added));
  }
  std::set<std::string_view> seen;
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = reader.Text(reader.Number<uint8_t>());
    if (token.empty()) reader.Fail(fmt::format("token {} is empty", id));
    if (!seen.insert(token).second) reader.Fail(fmt::format("token {} is there twice", id));
    stored.tokens.push_back(token);
  }
  for (size_t id = 0; id < stored.tokens.size(); ++id) {
    if (stored.special(id) && FindInvalidUtf8(stored.tokens[id]) != std::string::npos) {
      reader.Fail(fmt::format("token {} is special, and not UTF-8", id));
    }
  }
  if (reader.left() != 0) reader.Fail(fmt::format("{} bytes too many", reader.left()));
  return stored;
}

// Null if the tokens are not those of this kind, as for the two below.
std::unique_ptr<Tokenizer> AsBytes(const StoredTokens& stored) {
  constexpr size_t kBytes = ByteTokenizer::kEndOfText;
  const auto& tokens = stored.tokens;
  if (tokens.size() != kBytes + 1 + static_cast<size_t>(stored.added) ||
      stored.end != ByteTokenizer::kEndOfText || tokens[kBytes] != kEndOfTextToken) {
    return nullptr;
  }
  for (size_t id = 0; id < kBytes; ++id) {
    if (tokens[id] != std::string(1, static_cast<char>(id))) return nullptr;
  }
  return std::make_unique<ByteTokenizer>(stored.TextsFrom(kBytes + 1));
}

std::unique_ptr<Tokenizer> AsCharacters(const StoredTokens& stored) {
  std::vector<char32_t> characters;
  for (const std::string_view token : stored.tokens) {
    const char32_t code = OnlyCharacter(token);
    if (code == 0 || (!characters.empty() && code <= characters.back())) break;
    characters.push_back(code);
  }
  const size_t specials = stored.tokens.size() - characters.size();
  const bool ended = std::cmp_equal(stored.end, characters.size());
  if (characters.empty() || specials != static_cast<size_t>(stored.added) + (ended ? 1 : 0)) {
    return nullptr;
  }
  return std::make_unique<CharTokenizer>(characters, stored.TextsFrom(characters.size()));
}

std::unique_ptr<Tokenizer> AsBpe(const StoredTokens& stored, const std::string& path) {
  const size_t count = stored.tokens.size();
  BpeVocab vocab;
  ByteStrings ranked;
  size_t single = 0;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view token = stored.tokens[id];
    const bool special = stored.special(id);
    vocab.tokens.Add(token);
    ranked.Add(special ? std::string_view() : token);
    if (special) vocab.specials.push_back({std::string(token), static_cast<int32_t>(id)});
    if (!special && token.size() == 1) ++single;
  }
  constexpr size_t kAllBytes = 256;
  if (single != kAllBytes) return nullptr;
  CheckBpeVocab(vocab, path);
  vocab.merges = MergesFromRanks(ranked, static_cast<int32_t>(count));
  vocab.whole_pretokens = vocab.merges.size() + kAllBytes + vocab.specials.size() < count;
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

std::unique_ptr<Tokenizer> ParseTokenizer(std::string_view bytes, const std::string& path) {
  const StoredTokens stored = ReadStoredTokens(bytes, path);
  if (auto tokenizer = AsBytes(stored)) return tokenizer;
  if (auto tokenizer = AsCharacters(stored)) return tokenizer;
  return AsBpe(stored, path);
}

// With which llm.c begins a text: what ends one, or where there is no such token a line break, as
// folio does.
int32_t FirstToken(const Tokenizer& tokenizer) {
  if (tokenizer.end_of_text()) return *tokenizer.end_of_text();
  std::vector<int32_t> line_break;
  tokenizer.EncodePrefix("\n", line_break);
  return line_break.empty() ? 0 : line_break.front();
}

}  // namespace

std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path) {
  return ParseTokenizer(ReadFile(path, kMaxBytes), path.string());
}

std::string LlmcTokenizerBytes(const Tokenizer& tokenizer) {
  const auto count = static_cast<int32_t>(tokenizer.vocab_size());
  const auto specials = static_cast<int32_t>(tokenizer.special_tokens().size());
  const int32_t added = tokenizer.end_of_text() ? specials - 1 : specials;
  const TokenizerHeader header = {kTokenizerMagic, kVersion, count, FirstToken(tokenizer), added};
  std::string bytes(reinterpret_cast<const char*>(header.data()), sizeof(header));
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = tokenizer.TokenBytes(id);
    constexpr size_t kLongest = 255;
    if (token.empty() || token.size() > kLongest) return "";
    bytes += static_cast<char>(token.size());
    bytes += token;
  }
  try {
    const auto again = ParseTokenizer(bytes, kLlmcTokenizerFile);
    return again != nullptr && again->hash() == tokenizer.hash() ? bytes : "";
  } catch (const Error&) {  // a token that is there twice, an end among the bytes
    return "";
  }
}

}  // namespace folio
