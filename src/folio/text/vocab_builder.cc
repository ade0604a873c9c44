#include "folio/text/vocab_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "folio/base/error.h"
#include "folio/text/byte_names.h"

namespace folio {

JsonSource TokenizerSource(const std::string& path) {
  return {path, 1, "not a tokenizer's file", "copy the file again from where it was published"};
}

NamedIds ReadNamedIds(JsonReader& reader) {
  NamedIds result;
  const size_t room = reader.left();
  if (room > std::numeric_limits<uint32_t>::max()) reader.Fail(reader.at(), "longer than 4 GB");
  result.names = std::make_unique_for_overwrite<char[]>(room);
  result.entries.reserve(room / 16);
  uint32_t used = 0;
  reader.Expect('{');
  if (reader.Take('}')) return result;
  do {
    const auto length = static_cast<uint32_t>(reader.String(result.names.get() + used));
    reader.Expect(':');
    reader.Peek();
    const size_t at = reader.at();
    const int64_t id = reader.Integer();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      reader.Fail(at, fmt::format("the id {} is out of range", id));
    }
    result.entries.push_back({used, length, static_cast<int32_t>(id)});
    used += length;
  } while (reader.Take(','));
  reader.Expect('}');
  return result;
}

VocabBuilder::VocabBuilder(const NamedIds& ids, std::string file, Specials specials)
    : file_(std::move(file)), specials_(specials) {
  int32_t last = -1;
  for (const NamedIds::Entry& entry : ids.entries) {
    if (entry.length == 0) Refuse("a token is empty", fmt::format("its id is {}", entry.id));
    if (entry.id >= kMaxVocabIds) {
      Refuse(fmt::format("the id of the token '{}' is out of range", ids.name(entry)),
             fmt::format("found {}, expected 0 to {}", entry.id, kMaxVocabIds - 1));
    }
    last = std::max(last, entry.id);
  }
  names_.resize(static_cast<size_t>(last) + 1);
  for (const NamedIds::Entry& entry : ids.entries) {
    std::string_view& name = names_[static_cast<size_t>(entry.id)];
    if (!name.empty()) {
      Refuse(fmt::format("two tokens have the id {}", entry.id),
             fmt::format("'{}' and '{}'", name, ids.name(entry)));
    }
    name = ids.name(entry);
  }
}

void VocabBuilder::Refuse(const std::string& what, std::string cause) const {
  throw InputError(fmt::format("{}: {}", file_, what), std::move(cause),
                   "take the files from where the tokenizer was published, all from one place");
}

void VocabBuilder::AddSpecial(const SpecialToken& token) {
  if (token.id < 0 || token.id >= kMaxVocabIds) {
    Refuse(fmt::format("the id of the special token '{}' is out of range", token.text),
           fmt::format("found {}, expected 0 to {}", token.id, kMaxVocabIds - 1));
  }
  if (static_cast<size_t>(token.id) >= names_.size()) {
    names_.resize(static_cast<size_t>(token.id) + 1);
  }
  std::string_view& name = names_[static_cast<size_t>(token.id)];
  if (!name.empty() && name != token.text) {
    Refuse(fmt::format("two tokens have the id {}", token.id),
           fmt::format("'{}' and the special token '{}'", name, token.text));
  }
  name = added_.emplace_back(token.text);
  vocab_.specials.push_back(token);
}

void VocabBuilder::MakeTokens() {
  std::ranges::sort(vocab_.specials, {}, &SpecialToken::id);
  auto special = vocab_.specials.begin();
  size_t room = 0;
  for (const std::string_view name : names_) room += name.size();
  vocab_.tokens.Reserve(names_.size(), room);
  std::string bytes;
  for (size_t id = 0; id < names_.size(); ++id) {
    bytes.clear();
    if (special != vocab_.specials.end() && static_cast<size_t>(special->id) == id) {
      bytes = special->text;
      if (++special != vocab_.specials.end() && static_cast<size_t>(special->id) == id) {
        Refuse(fmt::format("two special tokens have the id {}", id),
               fmt::format("'{}' is one of them", special->text));
      }
    } else if (!AppendNamedBytes(names_[id], bytes) && specials_ == Specials::kDeclared) {
      Refuse(fmt::format("the token '{}' (id {}) is not written in the names of bytes", names_[id],
                         id),
             "tokens of a byte-level BPE are, unless they are special");
    }
    vocab_.tokens.Add(bytes);
  }
  index_.emplace(vocab_.tokens, vocab_.tokens.size());
  if (index_->twins()) CheckBpeVocab(vocab_, *index_, file_);  // throws
  made_.resize(names_.size());
  vocab_.merges.reserve(names_.size());
}

int32_t VocabBuilder::Part(std::string_view name, const std::function<std::string()>& where) {
  const size_t begin = pair_.size();
  const int32_t id = AppendNamedBytes(name, pair_)
                         ? index_->Find(std::string_view(pair_).substr(begin))
                         : ByteIndex::kNone;
  if (id != ByteIndex::kNone) return id;
  throw InputError(fmt::format("{}: the merge names an unknown token", where()),
                   fmt::format("'{}' is not in the vocabulary {}", name, file_),
                   "the vocabulary and the merges must come from the same tokenizer");
}

void VocabBuilder::AddMerge(std::string_view left, std::string_view right,
                            const std::function<std::string()>& where) {
  if (!index_) MakeTokens();
  pair_.clear();
  const int32_t left_id = Part(left, where);
  const int32_t right_id = Part(right, where);
  // Most vocabularies number their tokens in the order in which merges make them.
  const size_t next =
      vocab_.merges.empty() ? 0 : static_cast<size_t>(vocab_.merges.back().merged) + 1;
  const int32_t merged = next < vocab_.tokens.size() && vocab_.tokens[next] == pair_
                             ? static_cast<int32_t>(next)
                             : index_->Find(pair_);
  if (merged == ByteIndex::kNone) {
    throw InputError(fmt::format("{}: the merge makes an unknown token", where()),
                     fmt::format("'{}{}' is not in the vocabulary {}", left, right, file_),
                     "the vocabulary and the merges must come from the same tokenizer");
  }
  vocab_.merges.push_back({left_id, right_id, merged});
  made_[static_cast<size_t>(merged)] = true;
}

BpeVocab VocabBuilder::Finish() {
  if (!index_) MakeTokens();
  if (specials_ == Specials::kUnmade) {
    bool as_they_are = true;
    for (const SpecialToken& token : vocab_.specials) made_[static_cast<size_t>(token.id)] = true;
    for (size_t id = 0; id < names_.size(); ++id) {
      const std::string_view bytes = vocab_.tokens[id];
      if (made_[id] || bytes.size() == 1 || names_[id].empty()) continue;
      vocab_.specials.push_back({std::string(names_[id]), static_cast<int32_t>(id)});
      as_they_are = as_they_are && bytes == names_[id];
    }
    std::ranges::sort(vocab_.specials, {}, &SpecialToken::id);
    if (!as_they_are) {
      ByteStrings tokens;
      auto special = vocab_.specials.begin();
      for (size_t id = 0; id < names_.size(); ++id) {
        const bool is_special =
            special != vocab_.specials.end() && static_cast<size_t>(special->id) == id;
        tokens.Add(is_special ? std::string_view((special++)->text) : vocab_.tokens[id]);
      }
      vocab_.tokens = std::move(tokens);
      index_.emplace(vocab_.tokens, vocab_.tokens.size());
    }
  }
  CheckBpeVocab(vocab_, *index_, file_);
  return std::move(vocab_);
}

}  // namespace folio
