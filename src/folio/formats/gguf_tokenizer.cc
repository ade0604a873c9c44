#include "folio/formats/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_names.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_builder.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens",
                           kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kBpe = "gpt2", kLongestMatch = "rwkv", kNone = "no_vocab";
constexpr std::string_view kGpt2Pattern = "gpt-2";

enum TokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

std::string PadName(size_t id) {
  return fmt::format("[PAD{}]", id);
}

// --- reading

[[noreturn]] void Refuse(const GgufFile& file, const std::string& what, std::string cause) {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   "folio reads GPT-2's byte-level BPE from GGUF; other tokenizers it takes from "
                   "the model's Hugging Face directory");
}

// The tokens that stand for something, and which of them are special.
struct Listed {
  NamedIds ids = {};
  std::vector<SpecialToken> specials = {};
  bool typed = false;
};

std::vector<int32_t> ReadTypes(const GgufFile& file, size_t tokens) {
  std::vector<int32_t> types;
  types.reserve(std::min<size_t>(tokens, kMaxVocabIds));
  file.Integers(kTypesKey, [&](size_t i, int64_t type) {
    if (i < tokens) types.push_back(static_cast<int32_t>(std::clamp<int64_t>(type, 0, 99)));
  });
  if (!types.empty() && types.size() != tokens) {
    Refuse(file, "its tokenizer does not fit together",
           fmt::format("{} tokens, {} of them have a type", tokens, types.size()));
  }
  return types;
}

Listed ReadTokens(const GgufFile& file) {
  const uint64_t count = file.Count(kTokensKey);
  if (count == 0 || count > static_cast<uint64_t>(kMaxVocabIds)) {
    Refuse(file, "its tokenizer has no vocabulary",
           fmt::format("{} tokens, expected 1 to {}", count, kMaxVocabIds));
  }
  const std::vector<int32_t> types = ReadTypes(file, count);
  Listed listed{.typed = !types.empty()};
  size_t room = 0;
  file.Texts(kTokensKey, [&](size_t, std::string_view text) { room += text.size(); });
  if (room > kMaxVocabFileBytes) Refuse(file, "its vocabulary is too long", "");
  listed.ids.names = std::make_unique_for_overwrite<char[]>(room);
  listed.ids.entries.reserve(count);
  uint32_t used = 0;
  file.Texts(kTokensKey, [&](size_t id, std::string_view text) {
    const int32_t type = types.empty() ? kNormal : types[id];
    if (FindInvalidUtf8(text) != text.npos) {
      Refuse(file, fmt::format("token {} of its tokenizer is not UTF-8", id), "");
    }
    const bool pad = type == kUnused || (type == kUserDefined && text == PadName(id));
    if (pad) return;
    if (type == kControl) {
      if (text.empty()) Refuse(file, "a special token is empty", fmt::format("its id is {}", id));
      listed.specials.push_back({std::string(text), static_cast<int32_t>(id)});
    } else if (type != kNormal) {
      Refuse(file, fmt::format("the token '{}' is of a type that folio does not have", text),
             fmt::format("found {}, expected 1 (normal), 3 (control) or 5 (unused)", type));
    }
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
  for (size_t id = 0; id < size; ++id) {
    if (vocab.tokens[id] != bytes.TokenBytes(static_cast<int32_t>(id))) return false;
  }
  return std::ranges::equal(vocab.specials, bytes.special_tokens());
}

std::unique_ptr<Tokenizer> ReadBpe(const GgufFile& file) {
  const std::string_view pattern = file.Text(kPre).value_or(kGpt2Pattern);
  // Files of the time before the key was invented, or converted by what did not know the tokenizer.
  if (pattern != kGpt2Pattern && pattern != "default") {
    Refuse(file, fmt::format("its split pattern \"{}\" is not supported", pattern),
           fmt::format("expected \"{}\"", kGpt2Pattern));
  }
  const Listed listed = ReadTokens(file);
  VocabBuilder builder(
      listed.ids, file.path().string(),
      listed.typed ? VocabBuilder::Specials::kDeclared : VocabBuilder::Specials::kUnmade);
  for (const SpecialToken& special : listed.specials) builder.AddSpecial(special);
  if (file.Count(kMerges) > static_cast<uint64_t>(kMaxMerges)) {
    Refuse(file, "its tokenizer has too many merges", "");
  }
  const bool merges = file.Texts(kMerges, [&](size_t rank, std::string_view text) {
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos ||
        FindInvalidUtf8(text) != text.npos) {
      Refuse(file, fmt::format("merge {} of its tokenizer is none", rank),
             fmt::format("expected two tokens with a space between, found '{}'",
                         ReplaceInvalidUtf8(text)));
    }
    builder.AddMerge(text.substr(0, space), text.substr(space + 1),
                     [&] { return fmt::format("{}: merge {}", file.path().string(), rank); });
  });
  if (!merges)
    Refuse(file, "its tokenizer has no merges", fmt::format("\"{}\" is missing", kMerges));
  BpeVocab vocab = builder.Finish();
  if (IsByteVocab(vocab)) return std::make_unique<ByteTokenizer>();
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

// The escapes of llama.cpp's "rwkv" stand for the characters themselves.
std::string Unescaped(std::string_view text) {
  if (text == "\\n") return "\n";
  if (text == "\\t") return "\t";
  if (text == "\\r") return "\r";
  if (text == "\\\\") return "\\";
  return std::string(text);
}

std::unique_ptr<Tokenizer> ReadCharacters(const GgufFile& file) {
  const Listed listed = ReadTokens(file);
  std::vector<char32_t> characters;
  for (const NamedIds::Entry& entry : listed.ids.entries) {
    const std::string text = Unescaped(listed.ids.name(entry));
    const Utf8Char c = text.empty() ? Utf8Char{} : DecodeUtf8(text);
    const bool next = static_cast<size_t>(entry.id) == characters.size() &&
                      (characters.empty() || characters.back() < c.code);
    if (c.status != Utf8Status::kValid || c.length != text.size() || !next) {
      Refuse(file, "its tokenizer is not supported",
             fmt::format("of \"{}\" vocabularies folio reads those of single characters in the "
                         "order of Unicode; token {} is '{}'",
                         kLongestMatch, entry.id, text));
    }
    characters.push_back(c.code);
  }
  if (characters.empty()) Refuse(file, "its tokenizer has no tokens", "all are unused");
  return std::make_unique<CharTokenizer>(characters);
}

// --- writing

[[noreturn]] void RefuseToWrite(const std::string& what, std::string cause, std::string help) {
  throw InputError(fmt::format("GGUF cannot hold {}", what), std::move(cause), std::move(help));
}

// The vocabulary as it is written.
struct Written {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;

  void Add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
};

// Ids that stand for nothing get names that no other token has.
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

void AddEnds(std::optional<int64_t> begin, std::optional<int64_t> end, GgufHeader& header) {
  if (begin) header.AddU32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*begin));
  if (end) header.AddU32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*end));
  header.AddBool("tokenizer.ggml.add_bos_token", false);
}

// The tokens of a BPE vocabulary that begin and end a text. llama.cpp takes token 11 where it names
// none, so an id that nothing is made of stands in.
void AddBpeEnds(const Tokenizer& tokenizer, const GptConfig& config, const Written& written,
                GgufHeader& header) {
  std::optional<int64_t> end = config.eos_token_id;
  if (!end) end = tokenizer.end_of_text();
  if (!end) {
    const auto pad = std::ranges::find(written.types, kUnused);
    if (pad != written.types.end()) end = pad - written.types.begin();
  }
  if (!end) {
    RefuseToWrite("this tokenizer",
                  "it has no token that ends a text, and other programs take token 11 for it then",
                  "train with a tokenizer that has <|endoftext|>");
  }
  AddEnds(config.bos_token_id.value_or(*end), end, header);
}

void AddVocabulary(const Written& written, GgufHeader& header) {
  header.AddTexts(kTokensKey, written.tokens);
  header.AddI32s(kTypesKey, written.types);
}

// llama.cpp merges, and looks nothing up as a whole before.
void RequireMergesMakeAll(const BpeVocab& vocab) {
  if (!vocab.whole_pretokens) return;
  BpeVocab merging = vocab;
  merging.whole_pretokens = false;
  const BpeTokenizer whole(vocab), merged(std::move(merging));
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (whole.EncodeOrdinary(vocab.tokens[id]) == merged.EncodeOrdinary(vocab.tokens[id])) continue;
    RefuseToWrite("this tokenizer",
                  fmt::format("its token {} is made by no merges, which is all that other programs "
                              "do with GPT-2's pattern",
                              id),
                  "train with --tokenizer gpt2, bytes or one that folio trained");
  }
}

void AddBpe(const BpeTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  const BpeVocab& vocab = tokenizer.vocab();
  if (vocab.pattern != SplitPattern::kGpt2) {
    RefuseToWrite("this tokenizer",
                  "its split pattern is not GPT-2's, and other programs split by cl100k's and "
                  "o200k's a little otherwise",
                  "convert to hf, or train with --tokenizer gpt2, bytes or one that folio trained "
                  "with GPT-2's pattern");
  }
  RequireMergesMakeAll(vocab);
  Written written;
  auto special = vocab.specials.begin();
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (special != vocab.specials.end() && static_cast<size_t>(special->id) == id) {
      written.Add((special++)->text, kControl);
    } else {
      written.Add(ByteNames(vocab.tokens[id]), vocab.tokens[id].empty() ? kUnused : kNormal);
    }
  }
  AddPads(config.vocab_size, "", written);
  const auto name = [&](int32_t id) { return ByteNames(vocab.tokens[static_cast<size_t>(id)]); };
  std::vector<std::string> merges;
  merges.reserve(vocab.merges.size());
  for (const BpeMerge& merge : vocab.merges) {
    merges.push_back(fmt::format("{} {}", name(merge.left), name(merge.right)));
  }
  header.AddText(kModel, kBpe);
  header.AddText(kPre, kGpt2Pattern);
  AddVocabulary(written, header);
  header.AddTexts(kMerges, merges);
  AddBpeEnds(tokenizer, config, written, header);
}

void AddBytes(const ByteTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  BpeVocab vocab;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocab.tokens.Add(tokenizer.TokenBytes(id));
  }
  vocab.specials.assign(tokenizer.special_tokens().begin(), tokenizer.special_tokens().end());
  AddBpe(BpeTokenizer(std::move(vocab)), config, header);
}

std::string Escaped(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  if (character == "\r") return "\\r";
  return character == "\\" ? "\\\\" : std::string(character);
}

void AddCharacters(const CharTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  constexpr char kHelp[] =
      "convert to hf, or train with --tokenizer bytes or one that folio trained";
  if (!tokenizer.special_tokens().empty()) {
    RefuseToWrite("this character tokenizer",
                  fmt::format("its longest match would take {} for text",
                              tokenizer.special_tokens().front().text),
                  kHelp);
  }
  Written written;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view character = tokenizer.TokenBytes(id);
    // llama.cpp never ends on a character it does not know whose first byte it does.
    if (character.size() > 1 || character == std::string_view("\0", 1)) {
      RefuseToWrite("this character tokenizer",
                    fmt::format("{} is not ASCII: programs that read GGUF fail on other characters "
                                "that begin with the same byte",
                                QuoteChar(DecodeUtf8(character).code)),
                    kHelp);
    }
    written.Add(Escaped(character), kNormal);
  }
  // 0xFF is in no text.
  AddPads(config.vocab_size, "\\xff", written);
  header.AddText(kModel, kLongestMatch);
  AddVocabulary(written, header);
  AddEnds(config.bos_token_id, config.eos_token_id, header);
}

}  // namespace

std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file) {
  const std::string_view model = file.Text(kModel).value_or(kNone);
  if (model == kNone || model == "none") return nullptr;
  if (model == kBpe) return ReadBpe(file);
  if (model == kLongestMatch) return ReadCharacters(file);
  Refuse(file, fmt::format("its tokenizer \"{}\" is not supported", model),
         fmt::format("expected \"{}\"", kBpe));
}

void AddGgufTokenizer(const Tokenizer* tokenizer, const GptConfig& config, GgufHeader& header) {
  if (tokenizer == nullptr) {
    header.AddText(kModel, kNone);
    AddEnds(config.bos_token_id, config.eos_token_id, header);
  } else if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(tokenizer)) {
    AddBpe(*bpe, config, header);
  } else if (const auto* bytes = dynamic_cast<const ByteTokenizer*>(tokenizer)) {
    AddBytes(*bytes, config, header);
  } else if (const auto* characters = dynamic_cast<const CharTokenizer*>(tokenizer)) {
    AddCharacters(*characters, config, header);
  } else {
    RefuseToWrite(fmt::format("a tokenizer of the kind {}", tokenizer->kind()), "", "");
  }
  if (tokenizer != nullptr && FindChatFormat(*tokenizer)) {
    header.AddText("tokenizer.chat_template", ChatTemplate());
  }
}

}  // namespace folio
