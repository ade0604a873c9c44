#include <fmt/format.h>

#include <string_view>

#include "folio/base/check.h"
#include "folio/text/byte_names.h"
#include "folio/text/vocab_files.h"

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

// Appends the members of the object from name to id, each behind `indent`.
void AppendVocab(const BpeVocab& vocab, std::string_view indent, std::string& out) {
  auto special = vocab.specials.begin();
  bool first = true;
  std::string name;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string_view bytes = vocab.tokens[id];
    if (bytes.empty()) continue;
    name.clear();
    if (special != vocab.specials.end() && static_cast<size_t>(special->id) == id) {
      name = (special++)->text;
    } else {
      AppendByteNames(bytes, name);
    }
    if (!first) out += ',';
    first = false;
    out += indent;
    AppendQuoted(name, out);
    out += indent.empty() ? ":" : ": ";
    out += std::to_string(id);
  }
}

void AppendMerge(const BpeVocab& vocab, const BpeMerge& merge, std::string& out) {
  AppendByteNames(vocab.tokens[static_cast<size_t>(merge.left)], out);
  out += ' ';
  AppendByteNames(vocab.tokens[static_cast<size_t>(merge.right)], out);
}

std::string AddedTokens(const BpeVocab& vocab) {
  std::string tokens;
  for (const SpecialToken& token : vocab.specials) {
    tokens += fmt::format(R"({}
    {{
      "id": {},
      "content": {},
      "single_word": false,
      "lstrip": false,
      "rstrip": false,
      "normalized": false,
      "special": true
    }})",
                          tokens.empty() ? "" : ",", token.id, Quoted(token.text));
  }
  return tokens.empty() ? "[]" : fmt::format("[{}\n  ]", tokens);
}

std::string ByteLevel(bool use_regex) {
  return fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": false, )"
                     R"("trim_offsets": false, "use_regex": {}}})",
                     use_regex);
}

std::string PreTokenizer(const BpeVocab& vocab) {
  if (vocab.pattern == SplitPattern::kGpt2) return ByteLevel(true);
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

}  // namespace

std::string TokenizerJson(const BpeVocab& vocab) {
  std::string out;
  out.reserve(4096 + 8 * vocab.tokens.total_bytes() + 32 * vocab.tokens.size());
  out +=
      fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": {},
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": {},
    "vocab": {{)",
                  AddedTokens(vocab), PreTokenizer(vocab), ByteLevel(true), vocab.whole_pretokens);
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
