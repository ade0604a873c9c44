#include "folio/text/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer_json_writer.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens",
                           kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kTemplate = "tokenizer.chat_template";
constexpr std::string_view kTemplateForTools = "tokenizer.chat_template.tool_use";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kAddSpace = "tokenizer.ggml.add_space_prefix";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kBpe = "gpt2", kScored = "llama", kLongestMatch = "rwkv",
                           kNone = "no_vocab";

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// llama.cpp's name for the preprocessing of a byte-level BPE. Its own programs split with the
// expressions of the models named here.
struct PreTokenizerName {
  std::string_view name;
  SplitPattern pattern;
  bool whole_pretokens = false;
  bool nfc = false;  // the models use NFC; llama.cpp does not
};

// Among names with the same meaning, the first is written.
constexpr PreTokenizerName kPreTokenizers[] = {
    {"gpt-2", SplitPattern::kGpt2},
    {"phi-2", SplitPattern::kGpt2},
    {"mpt", SplitPattern::kGpt2},
    // In files that are older than the key, or from converters that did not know the tokenizer.
    {"default", SplitPattern::kGpt2},
    {"smollm", SplitPattern::kSmolLm},
    {"starcoder", SplitPattern::kSmolLm},
    {"refact", SplitPattern::kSmolLm},
    {"codeshell", SplitPattern::kSmolLm},
    {"llama-bpe", SplitPattern::kLlama3, true},
    {"llama3", SplitPattern::kLlama3, true},
    {"llama-v3", SplitPattern::kLlama3, true},
    {"qwen2", SplitPattern::kQwen2, false, true},
    {"deepseek-r1-qwen", SplitPattern::kQwen2, false, true},
    {"olmo", SplitPattern::kGpt2, false, true},
    {"dbrx", SplitPattern::kLlama3},
    {"smaug-bpe", SplitPattern::kLlama3},
    {"gpt-4o", SplitPattern::kO200k},
};

std::string PadName(size_t id) {
  return fmt::format("[PAD{}]", id);
}

std::string IdKey(std::string_view role) {
  return fmt::format("tokenizer.ggml.{}_token_id", role);
}

[[noreturn]] void RefuseTokenizer(const GgufFile& file, const std::string& what,
                                  std::string cause) {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   "use the tokenizer of the model's Hugging Face directory");
}

// --- reading the tokenizer

// The tokens in use, and which of them are special or added.
struct Listed {
  NamedIds ids = {};
  std::vector<AddedToken> added = {};
  std::vector<int32_t> types = {};  // for all ids, if the file has them
};

std::vector<int32_t> ReadTypes(const GgufFile& file, size_t tokens) {
  std::vector<int32_t> types;
  types.reserve(std::min<size_t>(tokens, kMaxVocabIds));
  file.Integers(kTypesKey, [&](size_t i, int64_t type) {
    if (i < tokens) types.push_back(static_cast<int32_t>(std::clamp<int64_t>(type, 0, 99)));
  });
  if (!types.empty() && types.size() != tokens) {
    RefuseTokenizer(file, "its tokenizer is inconsistent",
                    fmt::format("{} tokens, but {} types", tokens, types.size()));
  }
  return types;
}

// With `bytes` tokens may be single bytes.
Listed ReadTokens(const GgufFile& file, bool bytes) {
  const uint64_t count = file.Count(kTokensKey);
  if (count == 0 || count > static_cast<uint64_t>(kMaxVocabIds)) {
    RefuseTokenizer(file, "its tokenizer has no vocabulary",
                    fmt::format("{} tokens, expected 1 to {}", count, kMaxVocabIds));
  }
  Listed listed{.types = ReadTypes(file, count)};
  const std::vector<int32_t>& types = listed.types;
  size_t room = 0;
  file.Texts(kTokensKey, [&](size_t, std::string_view text) { room += text.size(); });
  if (room > kMaxVocabFileBytes) RefuseTokenizer(file, "its vocabulary is too long", "");
  listed.ids.names = std::make_unique_for_overwrite<char[]>(room);
  listed.ids.entries.reserve(count);
  uint32_t used = 0;
  file.Texts(kTokensKey, [&](size_t id, std::string_view text) {
    const int32_t type = types.empty() ? kNormal : types[id];
    if (FindInvalidUtf8(text) != text.npos) {
      RefuseTokenizer(file, fmt::format("token {} of its tokenizer is not UTF-8", id), "");
    }
    const bool pad = type == kUnused || (type == kUserDefined && text == PadName(id));
    if (pad) return;
    const bool special = type == kControl || type == kUnknown;
    if (special || type == kUserDefined) {
      if (text.empty()) {
        RefuseTokenizer(file, "a special token is empty", fmt::format("its id is {}", id));
      }
      const auto added = static_cast<int32_t>(id);
      listed.added.push_back({.text = std::string(text), .id = added, .special = special});
    } else if (type != kNormal && (type != kByte || !bytes)) {
      RefuseTokenizer(
          file, fmt::format("the token '{}' has an unsupported type", text),
          fmt::format(
              "found {}, expected 1 (normal), 2 (unknown), 3 (control), 4 (user defined), 5 "
              "(unused){}",
              type, bytes ? " or 6 (byte)" : ""));
    }
    // User-defined tokens are matched as text, and take no part in merging.
    if (type == kUserDefined) return;
    std::ranges::copy(text, listed.ids.names.get() + used);
    const auto length = static_cast<uint32_t>(text.size());
    listed.ids.entries.push_back({used, length, static_cast<int32_t>(id)});
    used += length;
  });
  return listed;
}

bool IsByteVocab(const BpeVocab& vocab) {
  const ByteTokenizer bytes;
  const auto size = static_cast<size_t>(bytes.vocab_size());
  if (!vocab.merges.empty() || vocab.tokens.size() != size) return false;
  if (!vocab.before.empty() || !vocab.behind.empty()) return false;
  for (size_t id = 0; id < size; ++id) {
    if (vocab.tokens[id] != bytes.TokenBytes(static_cast<int32_t>(id))) return false;
  }
  return std::ranges::equal(vocab.specials, bytes.special_tokens());
}

// Reads which tokens begin and end a text. `otherwise`: the begin if the file does not say.
void AddBegin(const GgufFile& file, bool otherwise, BpeVocab& vocab) {
  const TokenRoles roles = ReadGgufRoles(file);
  const auto is_token = [&](std::optional<int64_t> id) {
    return id && static_cast<size_t>(*id) < vocab.tokens.size() &&
           !vocab.tokens[static_cast<size_t>(*id)].empty();
  };
  if (roles.add_begin.value_or(otherwise) && is_token(roles.begin)) {
    vocab.before = {static_cast<int32_t>(*roles.begin)};
  }
  if (roles.add_end.value_or(false) && is_token(roles.end)) {
    vocab.behind = {static_cast<int32_t>(*roles.end)};
  }
}

// SentencePiece's BPE: any two neighbours merge that make a token, the highest score first, among
// equals the leftmost.
std::unique_ptr<Tokenizer> ReadScored(const GgufFile& file) {
  const Listed listed = ReadTokens(file, /*bytes=*/true);
  std::vector<float> scores;
  scores.reserve(std::min<size_t>(file.Count(kScores), kMaxVocabIds));
  file.Floats(kScores, [&](size_t id, float score) {
    if (id < static_cast<size_t>(kMaxVocabIds)) scores.push_back(score);
  });
  if (scores.size() != file.Count(kTokensKey) || listed.types.empty()) {
    RefuseTokenizer(file, "its tokenizer is inconsistent",
                    fmt::format("{} tokens, {} scores, {} types", file.Count(kTokensKey),
                                scores.size(), listed.types.size()));
  }
  VocabBuilder builder(listed.ids, file.path().string(), VocabBuilder::Specials::kDeclared,
                       VocabBuilder::Spelling::kMarkedSpaces);
  for (const AddedToken& token : listed.added) builder.AddAdded(token);
  std::vector<const NamedIds::Entry*> ranked;
  for (const NamedIds::Entry& entry : listed.ids.entries) {
    if (listed.types[static_cast<size_t>(entry.id)] == kNormal) ranked.push_back(&entry);
  }
  const auto score = [&](const NamedIds::Entry* entry) {
    return scores[static_cast<size_t>(entry->id)];
  };
  if (std::ranges::any_of(ranked, [&](const auto* entry) { return std::isnan(score(entry)); })) {
    RefuseTokenizer(file, "a score of its tokenizer is not a number", "");
  }
  std::ranges::stable_sort(ranked, std::ranges::greater(), score);
  std::vector<float> merged;
  size_t most = 0;
  for (const NamedIds::Entry* entry : ranked) {
    const size_t before = builder.merges();
    builder.AddMergesOf(listed.ids.name(*entry));
    if (builder.merges() == before) continue;
    if (!merged.empty() && merged.back() == score(entry)) {
      RefuseTokenizer(file, "two tokens of its tokenizer have the same score",
                      fmt::format("'{}' is one of them", listed.ids.name(*entry)));
    }
    merged.push_back(score(entry));
    most = builder.merges();
    if (most > static_cast<size_t>(kMaxMerges)) {
      RefuseTokenizer(file, "its tokenizer has too many merges", "");
    }
  }
  BpeVocab vocab = builder.Finish();
  vocab.pattern = SplitPattern::kWhole;
  vocab.ranked_by_token = true;
  const bool prefix = file.Bool(kAddSpace).value_or(true);
  vocab.space_prefix = prefix ? SpacePrefix::kEach : SpacePrefix::kNever;
  vocab.strips_space = prefix;
  AddBegin(file, true, vocab);
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

std::unique_ptr<Tokenizer> ReadBpe(const GgufFile& file) {
  const std::string_view name = file.Text(kPre).value_or("default");
  const auto* const pre = std::ranges::find(kPreTokenizers, name, &PreTokenizerName::name);
  if (pre == std::end(kPreTokenizers)) {
    std::string known;
    for (const PreTokenizerName& one : kPreTokenizers) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
    }
    RefuseTokenizer(file, fmt::format("its split pattern \"{}\" is not supported", name),
                    fmt::format("\"{}\" must be {}", kPre, known));
  }
  const Listed listed = ReadTokens(file, /*bytes=*/false);
  VocabBuilder builder(
      listed.ids, file.path().string(),
      listed.types.empty() ? VocabBuilder::Specials::kUnmade : VocabBuilder::Specials::kDeclared);
  for (const AddedToken& token : listed.added) builder.AddAdded(token);
  builder.LeaveOutMissingBytes();
  if (file.Count(kMerges) > static_cast<uint64_t>(kMaxMerges)) {
    RefuseTokenizer(file, "its tokenizer has too many merges", "");
  }
  const bool merges = file.Texts(kMerges, [&](size_t rank, std::string_view text) {
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos ||
        FindInvalidUtf8(text) != text.npos) {
      RefuseTokenizer(file, fmt::format("merge {} of its tokenizer is not valid", rank),
                      fmt::format("expected two tokens with a space between, found '{}'",
                                  ReplaceInvalidUtf8(text)));
    }
    builder.AddMerge(text.substr(0, space), text.substr(space + 1),
                     [&] { return fmt::format("{}: merge {}", file.path().string(), rank); });
  });
  if (!merges)
    RefuseTokenizer(file, "its tokenizer has no merges", fmt::format("\"{}\" is missing", kMerges));
  BpeVocab vocab = builder.Finish();
  vocab.pattern = pre->pattern;
  vocab.whole_pretokens = pre->whole_pretokens;
  vocab.nfc = pre->nfc;
  AddBegin(file, false, vocab);
  if (IsByteVocab(vocab)) return std::make_unique<ByteTokenizer>();
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

// The escapes that llama.cpp's "rwkv" writes for characters.
using Escape = std::pair<std::string_view, std::string_view>;
constexpr Escape kEscapes[] = {{"\n", "\\n"}, {"\t", "\\t"}, {"\r", "\\r"}, {"\\", "\\\\"}};

std::string Unescaped(std::string_view text) {
  const auto* const escape = std::ranges::find(kEscapes, text, &Escape::second);
  return std::string(escape == std::end(kEscapes) ? text : escape->first);
}

std::string Escaped(std::string_view character) {
  const auto* const escape = std::ranges::find(kEscapes, character, &Escape::first);
  return std::string(escape == std::end(kEscapes) ? character : escape->second);
}

std::unique_ptr<Tokenizer> ReadCharacters(const GgufFile& file) {
  const Listed listed = ReadTokens(file, /*bytes=*/false);
  std::vector<char32_t> characters;
  for (const NamedIds::Entry& entry : listed.ids.entries) {
    const std::string text = Unescaped(listed.ids.name(entry));
    const Utf8Char c = text.empty() ? Utf8Char{} : DecodeUtf8(text);
    const bool next = static_cast<size_t>(entry.id) == characters.size() &&
                      (characters.empty() || characters.back() < c.code);
    if (c.status != Utf8Status::kValid || c.length != text.size() || !next) {
      RefuseTokenizer(file, "its tokenizer is not supported",
                      fmt::format("folio supports \"{}\" vocabularies only with single characters "
                                  "in Unicode order; token {} is '{}'",
                                  kLongestMatch, entry.id, text));
    }
    characters.push_back(c.code);
  }
  if (characters.empty())
    RefuseTokenizer(file, "its tokenizer has no tokens", "all of them are unused");
  return std::make_unique<CharTokenizer>(characters);
}

// --- writing the tokenizer

[[noreturn]] void RefuseToWrite(const std::string& what, std::string cause, std::string help) {
  throw InputError(fmt::format("GGUF cannot store {}", what), std::move(cause), std::move(help));
}

// The ids to write and their roles.
struct GgufTokens {
  int64_t vocab_size;
  const TokenRoles& roles;
};

// The vocabulary in the form to be written.
struct Written {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;

  void Add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
};

// Unused ids get names that no other token has.
void AddPads(int64_t vocab_size, std::string_view prefix, Written& written) {
  std::set<std::string, std::less<>> names(written.tokens.begin(), written.tokens.end());
  written.tokens.resize(static_cast<size_t>(vocab_size));
  written.types.resize(static_cast<size_t>(vocab_size), kUnused);
  for (size_t id = 0; id < written.tokens.size(); ++id) {
    if (written.types[id] != kUnused) continue;
    std::string name = fmt::format("{}{}", prefix, PadName(id));
    while (names.contains(name)) name += '_';
    written.tokens[id] = std::move(name);
  }
}

void AddId(std::string_view role, int64_t id, GgufHeader& header) {
  header.AddU32(IdKey(role), static_cast<uint32_t>(id));
}

void AddEnds(std::optional<int64_t> begin, std::optional<int64_t> end, bool add_begin,
             GgufHeader& header) {
  if (begin) AddId("bos", *begin, header);
  if (end) AddId("eos", *end, header);
  header.AddBool("tokenizer.ggml.add_bos_token", add_begin);
}

// The tokens of a BPE vocabulary that begin and end a text. llama.cpp uses token 11 if none is
// named, so an unused id is written.
void AddBpeEnds(const Tokenizer& tokenizer, const TokenRoles& roles, const Written& written,
                GgufHeader& header) {
  std::optional<int64_t> end = roles.end;
  if (!end) end = tokenizer.end_of_text();
  if (!end) {
    const auto pad = std::ranges::find(written.types, kUnused);
    if (pad != written.types.end()) end = pad - written.types.begin();
  }
  if (!end) {
    RefuseToWrite("this tokenizer",
                  "it has no end-of-text token, and other programs then use token 11",
                  "train with a tokenizer that has <|endoftext|>");
  }
  const std::span<const int32_t> before = tokenizer.before(), behind = tokenizer.behind();
  if (before.size() > 1 || (!behind.empty() && (behind.size() > 1 || behind[0] != *end))) {
    RefuseToWrite("this tokenizer", "it adds more than one token before or after texts",
                  "convert to hf");
  }
  AddEnds(before.empty() ? roles.begin.value_or(*end) : before[0], end, !before.empty(), header);
  if (!behind.empty()) header.AddBool("tokenizer.ggml.add_eos_token", true);
}

void AddVocabulary(const Written& written, GgufHeader& header) {
  header.AddTexts(kTokensKey, written.tokens);
  header.AddI32s(kTypesKey, written.types);
}

// The name to write: chosen by pattern, and if possible by whether whole pretokens are looked up.
const PreTokenizerName& NameOf(const BpeVocab& vocab) {
  const PreTokenizerName* found = nullptr;
  for (const PreTokenizerName& name : kPreTokenizers) {
    // Other programs split slightly differently with o200k's pattern.
    if (name.pattern != vocab.pattern || name.pattern == SplitPattern::kO200k ||
        name.nfc != vocab.nfc) {
      continue;
    }
    if (name.whole_pretokens == vocab.whole_pretokens) return name;
    if (found == nullptr) found = &name;
  }
  if (found != nullptr) return *found;
  RefuseToWrite(
      "this tokenizer",
      fmt::format(
          "other programs have no name for the split pattern {}{}, or implement it differently",
          SplitPatternName(vocab.pattern), vocab.nfc ? " of composed text" : ""),
      "convert to hf, or train with --tokenizer gpt2, bytes or one that folio trained "
      "with GPT-2's pattern");
}

// With some names llama.cpp looks whole pretokens up before merging, with others it does not.
void RequireMergesMakeAll(const BpeVocab& vocab) {
  BpeVocab merging = vocab;
  merging.whole_pretokens = false;
  const BpeTokenizer whole(vocab), merged(std::move(merging));
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (whole.EncodeOrdinary(vocab.tokens[id]) == merged.EncodeOrdinary(vocab.tokens[id])) continue;
    RefuseToWrite("this tokenizer",
                  fmt::format("its token {} does not result from merges, and with GPT-2's pattern "
                              "other programs use only merges",
                              id),
                  "train with --tokenizer gpt2, bytes or one that folio trained");
  }
}

// The vocabulary by id, with added tokens as text.
Written WrittenVocabulary(const BpeVocab& vocab) {
  const auto flagged = std::ranges::find_if(vocab.added, [](const AddedToken& token) {
    return token.left_strip || token.right_strip || token.single_word || token.normalized ||
           (!token.special && !token.alone);
  });
  if (flagged != vocab.added.end()) {
    RefuseToWrite(
        "this tokenizer",
        fmt::format("its added token '{}' has options that GGUF does not support", flagged->text),
        "convert to hf");
  }
  if (vocab.unknown >= 0) {
    RefuseToWrite("this tokenizer", "it has an unknown token", "convert to hf");
  }
  Written written;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const auto added = std::ranges::find(vocab.added, static_cast<int32_t>(id), &AddedToken::id);
    const auto byte = std::ranges::find(vocab.byte_tokens, static_cast<int32_t>(id));
    std::string name = NameInFiles(vocab, static_cast<int32_t>(id));
    TokenType type = vocab.tokens[id].empty() ? kUnused : kNormal;
    if (FindSpecial(vocab.specials, id) != nullptr) {
      type = kControl;
    } else if (added != vocab.added.end()) {
      type = kUserDefined;
      name = added->text;
    } else if (byte != vocab.byte_tokens.end()) {
      type = kByte;
    }
    written.Add(std::move(name), type);
  }
  return written;
}

void AddMerged(const BpeTokenizer& tokenizer, const GgufTokens& to, GgufHeader& header) {
  const BpeVocab& vocab = tokenizer.vocab();
  const PreTokenizerName& pre = NameOf(vocab);
  if (pre.whole_pretokens != vocab.whole_pretokens) RequireMergesMakeAll(vocab);
  Written written = WrittenVocabulary(vocab);
  AddPads(to.vocab_size, "", written);
  std::vector<std::string> merges;
  merges.reserve(vocab.merges.size());
  for (const BpeMerge& merge : vocab.merges) {
    merges.push_back(
        fmt::format("{} {}", NameInFiles(vocab, merge.left), NameInFiles(vocab, merge.right)));
  }
  header.AddText(kModel, kBpe);
  header.AddText(kPre, pre.name);
  AddVocabulary(written, header);
  header.AddTexts(kMerges, merges);
  AddBpeEnds(tokenizer, to.roles, written, header);
}

// The number of pairs of tokens that together are a token, all of which scores would merge.
size_t CountPairs(const BpeVocab& vocab, const Written& written) {
  std::vector<bool> left_out(vocab.tokens.size());
  for (size_t id = 0; id < left_out.size(); ++id) left_out[id] = written.types[id] != kNormal;
  const ByteIndex index(vocab.tokens, vocab.tokens.size(), left_out);
  size_t pairs = 0;
  for (size_t id = 0; id < left_out.size(); ++id) {
    const std::string_view bytes = vocab.tokens[id];
    for (size_t at = 1; at < bytes.size() && !left_out[id]; ++at) {
      pairs += index.Find(bytes.substr(0, at)) != ByteIndex::kNone &&
               index.Find(bytes.substr(at)) != ByteIndex::kNone;
    }
  }
  return pairs;
}

// A token's score gives the rank of its merges. Merges that make one token must be adjacent, and
// complete, as they are in vocabularies made of scores.
void AddScored(const BpeTokenizer& tokenizer, const GgufTokens& to, GgufHeader& header) {
  const BpeVocab& vocab = tokenizer.vocab();
  const bool each = vocab.space_prefix == SpacePrefix::kEach;
  if ((!each && vocab.space_prefix != SpacePrefix::kNever) || vocab.nfc ||
      vocab.pattern != SplitPattern::kWhole || vocab.whole_pretokens) {
    RefuseToWrite("this tokenizer", "other programs add spaces before texts by another rule",
                  "convert to hf");
  }
  Written written = WrittenVocabulary(vocab);
  std::vector<float> scores(vocab.tokens.size());
  std::vector<bool> made(vocab.tokens.size());
  const size_t pairs = CountPairs(vocab, written);
  float score = 0;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const auto merged = static_cast<size_t>(vocab.merges[rank].merged);
    if (rank > 0 && vocab.merges[rank - 1].merged == vocab.merges[rank].merged) continue;
    if (made[merged] || pairs != vocab.merges.size()) {
      RefuseToWrite("this tokenizer", "its merges do not follow from scores of tokens",
                    "convert to hf");
    }
    made[merged] = true;
    scores[merged] = --score;
  }
  // Tokens that no merge makes come last; characters need no merge.
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!made[id] && written.types[id] == kNormal) scores[id] = --score;
  }
  AddPads(to.vocab_size, "", written);
  scores.resize(written.tokens.size());
  header.AddText(kModel, kScored);
  AddVocabulary(written, header);
  header.AddF32s(kScores, scores);
  header.AddBool(kAddSpace, each);
  AddBpeEnds(tokenizer, to.roles, written, header);
}

void AddBpe(const BpeTokenizer& tokenizer, const GgufTokens& to, GgufHeader& header) {
  if (tokenizer.vocab().byte_tokens.empty()) {
    AddMerged(tokenizer, to, header);
  } else {
    AddScored(tokenizer, to, header);
  }
}

void AddBytes(const ByteTokenizer& tokenizer, const GgufTokens& to, GgufHeader& header) {
  BpeVocab vocab;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocab.tokens.Add(tokenizer.TokenBytes(id));
  }
  vocab.specials.assign(tokenizer.special_tokens().begin(), tokenizer.special_tokens().end());
  AddBpe(BpeTokenizer(std::move(vocab)), to, header);
}

void AddCharacters(const CharTokenizer& tokenizer, const GgufTokens& to, GgufHeader& header) {
  constexpr char kHelp[] =
      "convert to hf, or train with --tokenizer bytes or one that folio trained";
  if (!tokenizer.special_tokens().empty()) {
    RefuseToWrite("this character tokenizer",
                  fmt::format("the longest match would read {} as text",
                              tokenizer.special_tokens().front().text),
                  kHelp);
  }
  Written written;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view character = tokenizer.TokenBytes(id);
    // llama.cpp never finishes on an unknown character whose first byte is known.
    if (character.size() > 1 || character == std::string_view("\0", 1)) {
      RefuseToWrite("this character tokenizer",
                    fmt::format("{} is not ASCII: programs that read GGUF fail on other characters "
                                "with the same first byte",
                                QuoteChar(DecodeUtf8(character).code)),
                    kHelp);
    }
    written.Add(Escaped(character), kNormal);
  }
  // 0xFF occurs in no text.
  AddPads(to.vocab_size, "\\xff", written);
  header.AddText(kModel, kLongestMatch);
  AddVocabulary(written, header);
  AddEnds(to.roles.begin, to.roles.end, false, header);
}

}  // namespace

std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file) {
  const std::string_view model = file.Text(kModel).value_or(kNone);
  if (model == kNone || model == "none") return nullptr;
  std::unique_ptr<Tokenizer> tokenizer = model == kBpe            ? ReadBpe(file)
                                         : model == kScored       ? ReadScored(file)
                                         : model == kLongestMatch ? ReadCharacters(file)
                                                                  : nullptr;
  if (tokenizer == nullptr) {
    RefuseTokenizer(file, fmt::format("its tokenizer \"{}\" is not supported", model),
                    fmt::format("expected \"{}\" or \"{}\"", kBpe, kScored));
  }
  const TokenRoles roles = ReadGgufRoles(file);
  std::optional<int64_t> end = roles.end;
  for (const auto& other : {roles.end_of_turn, roles.end_of_message}) end = end ? end : other;
  const auto text = [&](std::optional<int64_t> id) {
    const bool known = id && *id < tokenizer->vocab_size();
    return known ? std::string(tokenizer->TokenBytes(static_cast<int32_t>(*id))) : std::string();
  };
  tokenizer->set_chat_source({.text = roles.chat_template,
                              .for_tools = std::string(file.Text(kTemplateForTools).value_or("")),
                              .where = fmt::format("{}: {}", file.path().string(), kTemplate),
                              .bos_token = text(roles.begin),
                              .eos_token = text(end)});
  return tokenizer;
}

TokenRoles ReadGgufRoles(const GgufFile& file) {
  const auto tokens = static_cast<int64_t>(file.Count(kTokensKey));
  const auto id = [&](std::string_view role) {
    const std::optional<int64_t> found = file.Integer(IdKey(role));
    // A file may name ends of texts without listing the tokens.
    const bool known = found && *found >= 0 && (tokens == 0 || *found < tokens);
    return known ? found : std::nullopt;
  };
  return {.begin = id("bos"),
          .end = id("eos"),
          .end_of_turn = id("eot"),
          .end_of_message = id("eom"),
          .unknown = id("unknown"),
          .padding = id("padding"),
          .add_begin = file.Bool("tokenizer.ggml.add_bos_token"),
          .add_end = file.Bool("tokenizer.ggml.add_eos_token"),
          .chat_template = std::string(file.Text(kTemplate).value_or(""))};
}

void AddGgufTokenizer(const Tokenizer* tokenizer, int64_t vocab_size, const TokenRoles& roles,
                      GgufHeader& header) {
  const GgufTokens to{vocab_size, roles};
  if (tokenizer == nullptr) {
    header.AddText(kModel, kNone);
    AddEnds(to.roles.begin, to.roles.end, false, header);
  } else if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(tokenizer)) {
    AddBpe(*bpe, to, header);
  } else if (const auto* bytes = dynamic_cast<const ByteTokenizer*>(tokenizer)) {
    AddBytes(*bytes, to, header);
  } else if (const auto* characters = dynamic_cast<const CharTokenizer*>(tokenizer)) {
    AddCharacters(*characters, to, header);
  } else {
    RefuseToWrite(fmt::format("a tokenizer of kind {}", tokenizer->kind()), "", "");
  }
  if (roles.end_of_turn) AddId("eot", *roles.end_of_turn, header);
  if (roles.end_of_message) AddId("eom", *roles.end_of_message, header);
  if (tokenizer != nullptr && FindChatFormat(*tokenizer)) {
    header.AddText(kTemplate, RoleTokenTemplate());
  } else if (tokenizer != nullptr && !tokenizer->chat_source().text.empty()) {
    const ChatSource& source = tokenizer->chat_source();
    header.AddText(kTemplate, source.text);
    if (!source.for_tools.empty()) header.AddText(kTemplateForTools, source.for_tools);
  }
}

}  // namespace folio
