#include "folio/text/tokenizer_json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "folio/text/split.h"

namespace folio {
namespace {

// Appends a JSON string; `text` is UTF-8.
void AppendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string Quoted(std::string_view text) {
  std::string quoted;
  AppendQuoted(text, quoted);
  return quoted;
}

// Appends the name of a token that is not special.
void AppendName(const BpeVocab& vocab, size_t id, std::string& out) {
  const std::string_view bytes = vocab.tokens[id];
  if (vocab.byte_tokens.empty()) {
    AppendByteNames(bytes, out);
    return;
  }
  if (bytes.size() == 1) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    if (vocab.byte_tokens[byte] == static_cast<int32_t>(id)) {
      out += fmt::format("<0x{:02X}>", byte);
      return;
    }
  }
  for (const char c : bytes) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
}

// Appends the members of the object from name to id, each behind `indent`.
void AppendVocab(const BpeVocab& vocab, std::string_view indent, std::string& out) {
  bool first = true;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.tokens[id].empty() || FindAlone(vocab, id) != nullptr) continue;
    if (!first) out += ',';
    first = false;
    out += indent;
    AppendQuoted(NameInFiles(vocab, static_cast<int32_t>(id)), out);
    out += indent.empty() ? ":" : ": ";
    out += std::to_string(id);
  }
}

void AppendMerge(const BpeVocab& vocab, const BpeMerge& merge, std::string& out) {
  AppendName(vocab, static_cast<size_t>(merge.left), out);
  out += ' ';
  AppendName(vocab, static_cast<size_t>(merge.right), out);
}

std::string AddedTokensJson(const BpeVocab& vocab) {
  std::vector<AddedToken> added = AllAdded(vocab);
  std::ranges::sort(added, {}, &AddedToken::id);
  std::string tokens;
  for (const AddedToken& token : added) {
    tokens +=
        fmt::format(R"({}
    {{
      "id": {},
      "content": {},
      "single_word": {},
      "lstrip": {},
      "rstrip": {},
      "normalized": {},
      "special": {}
    }})",
                    tokens.empty() ? "" : ",", token.id, Quoted(token.text), token.single_word,
                    token.left_strip, token.right_strip, token.normalized, token.special);
  }
  return tokens.empty() ? "[]" : fmt::format("[{}\n  ]", tokens);
}

std::string ListOf(const std::vector<std::string>& steps, std::string_view type,
                   std::string_view key) {
  if (steps.empty()) return "null";
  if (steps.size() == 1) return steps[0];
  return fmt::format(R"({{"type": "{}", "{}": [{}]}})", type, key, fmt::join(steps, ", "));
}

std::string Normalizer(const BpeVocab& vocab) {
  std::vector<std::string> steps;
  if (vocab.nfc) steps.emplace_back(R"({"type": "NFC"})");
  if (vocab.space_prefix == SpacePrefix::kEach) {
    steps.push_back(fmt::format(R"({{"type": "Prepend", "prepend": "{}"}})", kSpaceMark));
  }
  if (!vocab.byte_tokens.empty()) {
    steps.push_back(fmt::format(
        R"({{"type": "Replace", "pattern": {{"String": " "}}, "content": "{}"}})", kSpaceMark));
  }
  return ListOf(steps, "Sequence", "normalizers");
}

std::string ByteLevel(bool use_regex) {
  return fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": false, )"
                     R"("trim_offsets": false, "use_regex": {}}})",
                     use_regex);
}

std::string Decoder(const BpeVocab& vocab) {
  if (vocab.byte_tokens.empty()) return ByteLevel(true);
  return fmt::format(
      R"({{
    "type": "Sequence",
    "decoders": [
      {{"type": "Replace", "pattern": {{"String": "{}"}}, "content": " "}},
      {{"type": "ByteFallback"}},
      {{"type": "Fuse"}}{}
    ]
  }})",
      kSpaceMark,
      vocab.strips_space ? ",\n      {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
                           "\"stop\": 0}"
                         : "");
}

std::string PostProcessor(const BpeVocab& vocab) {
  if (vocab.before.empty() && vocab.behind.empty()) return "null";
  std::vector<std::string> steps;
  std::map<std::string, int32_t> named;
  const auto add = [&](int32_t id) {
    const std::string name = NameInFiles(vocab, id);
    named.emplace(name, id);
    steps.push_back(fmt::format(R"({{"SpecialToken": {{"id": {}, "type_id": 0}}}})", Quoted(name)));
  };
  for (const int32_t id : vocab.before) add(id);
  steps.emplace_back(R"({"Sequence": {"id": "A", "type_id": 0}})");
  for (const int32_t id : vocab.behind) add(id);
  std::vector<std::string> tokens;
  for (const auto& [name, id] : named) {
    tokens.push_back(
        fmt::format(R"({0}: {{"id": {0}, "ids": [{1}], "tokens": [{0}]}})", Quoted(name), id));
  }
  return fmt::format(R"({{
    "type": "TemplateProcessing",
    "single": [{0}],
    "pair": [{0}, {{"Sequence": {{"id": "B", "type_id": 1}}}}],
    "special_tokens": {{{1}}}
  }})",
                     fmt::join(steps, ", "), fmt::join(tokens, ", "));
}

std::string PreTokenizer(const BpeVocab& vocab) {
  if (vocab.pattern == SplitPattern::kGpt2) return ByteLevel(true);
  if (!vocab.byte_tokens.empty()) {
    const bool splits = vocab.pattern == SplitPattern::kSpaces;
    const bool prefix = vocab.space_prefix == SpacePrefix::kFirstUnlessThere ||
                        vocab.space_prefix == SpacePrefix::kEachUnlessThere;
    if (!splits && !prefix) return "null";
    return fmt::format(
        R"({{"type": "Metaspace", "replacement": "{}", "prepend_scheme": "{}", "split": {}}})",
        kSpaceMark,
        !prefix                                                ? "never"
        : vocab.space_prefix == SpacePrefix::kFirstUnlessThere ? "first"
                                                               : "always",
        splits);
  }
  if (vocab.pattern == SplitPattern::kSmolLm) {
    return fmt::format(R"({{
    "type": "Sequence",
    "pretokenizers": [
      {{"type": "Digits", "individual_digits": true}},
      {}
    ]
  }})",
                       ByteLevel(true));
  }
  return fmt::format(R"({{
    "type": "Sequence",
    "pretokenizers": [
      {{
        "type": "Split",
        "pattern": {{"Regex": {}}},
        "behavior": "Isolated",
        "invert": false
      }},
      {}
    ]
  }})",
                     Quoted(SplitPatternRegex(vocab.pattern)), ByteLevel(false));
}

// The files of tokenizers that are no BPE.

constexpr char kAnyChar[] = R"([\s\S])";
constexpr char kUnknown[] = "<unk>";

Json File(Json added_tokens, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},     {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr}, {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json SpecialsJson(std::span<const SpecialToken> specials) {
  Json added = Json::array();
  for (const SpecialToken& special : specials) {
    added.push_back({{"id", special.id},
                     {"content", special.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

}  // namespace

Json ByteTokenizerJson(std::span<const SpecialToken> specials) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[ByteNames({&c, 1})] = byte;
  }
  vocab[specials[0].text] = specials[0].id;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  return File(SpecialsJson(specials), byte_level, byte_level,
              {{"type", "BPE"},
               {"dropout", nullptr},
               {"unk_token", nullptr},
               {"continuing_subword_prefix", nullptr},
               {"end_of_word_suffix", nullptr},
               {"fuse_unk", false},
               {"byte_fallback", false},
               {"ignore_merges", false},
               {"vocab", std::move(vocab)},
               {"merges", Json::array()}});
}

Json CharTokenizerJson(Json vocab, std::span<const SpecialToken> specials) {
  return File(SpecialsJson(specials),
              {{"type", "Split"},
               {"pattern", {{"Regex", kAnyChar}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "Fuse"}},
              {{"type", "WordLevel"}, {"vocab", std::move(vocab)}, {"unk_token", kUnknown}});
}

std::string NameInFiles(const BpeVocab& vocab, int32_t id) {
  const auto place = static_cast<size_t>(id);
  if (const SpecialToken* special = FindSpecial(vocab.specials, place)) return special->text;
  if (const AddedToken* alone = FindAlone(vocab, place)) return alone->text;
  std::string name;
  AppendName(vocab, place, name);
  return name;
}

std::string TokenizerJson(const BpeVocab& vocab) {
  std::string out;
  out.reserve(4096 + 8 * vocab.tokens.total_bytes() + 32 * vocab.tokens.size());
  out += fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": {},
  "normalizer": {},
  "pre_tokenizer": {},
  "post_processor": {},
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": {},
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": {},
    "byte_fallback": {},
    "ignore_merges": {},
    "vocab": {{)",
                     AddedTokensJson(vocab), Normalizer(vocab), PreTokenizer(vocab),
                     PostProcessor(vocab), Decoder(vocab),
                     vocab.unknown < 0 ? "null" : Quoted(NameInFiles(vocab, vocab.unknown)),
                     vocab.fuse_unknown, !vocab.byte_tokens.empty(), vocab.whole_pretokens);
  AppendVocab(vocab, "\n      ", out);
  out += "\n    },\n    \"merges\": [";
  std::string merge;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    merge.clear();
    AppendMerge(vocab, vocab.merges[rank], merge);
    out += rank == 0 ? "\n      " : ",\n      ";
    AppendQuoted(merge, out);
  }
  out += vocab.merges.empty() ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n";
  return out;
}

std::string VocabJson(const BpeVocab& vocab) {
  std::string out = "{";
  AppendVocab(vocab, "", out);
  return out + "}\n";
}

std::string MergesTxt(const BpeVocab& vocab) {
  std::string out = "#version: 0.2\n";
  for (const BpeMerge& merge : vocab.merges) {
    AppendMerge(vocab, merge, out);
    out += '\n';
  }
  return out;
}

}  // namespace folio
