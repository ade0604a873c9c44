#include "folio/text/vocab_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "folio/base/base64.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/text/published_encodings.h"

namespace folio {
namespace {

// Removes the first line and returns it without its line end.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void AddMerges(std::string_view text, const std::string& path, VocabBuilder& builder) {
  int64_t number = 0;  // number of the line
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
                                       ? fmt::format("{} other bytes", line.size())
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
  bool IsSpecial(size_t rank) const { return FindSpecial(encoding_.specials, rank) != nullptr; }

  // Appends the token's bytes and returns its rank.
  size_t Line(std::string_view line, std::string& bytes) const {
    const size_t space = line.find(' ');
    if (space == line.npos) RefuseLine("not a token", "expected its bytes in base64 and its rank");
    if (space > 4 * kMaxTokenBytes / 3 || !AppendBase64(line.substr(0, space), bytes)) {
      RefuseLine("not a token", fmt::format("its bytes are not in padded base64, or more than {}",
                                            kMaxTokenBytes));
    }
    size_t rank = 0;
    const char* last = line.data() + line.size();
    const auto [end, error] = std::from_chars(line.data() + space + 1, last, rank);
    if (error != std::errc() || end != last || rank >= place_.size()) {
      RefuseLine("invalid rank", fmt::format("expected an integer from 0 to {} after the space",
                                             place_.size() - 1));
    }
    return rank;
  }

  void Place(size_t rank) {
    if (place_[rank] != 0) {
      RefuseLine(fmt::format("duplicate rank {}", rank),
                 fmt::format("it is on line {}", place_[rank]));
    }
    if (IsSpecial(rank)) {
      RefuseLine(fmt::format("rank {} is in use", rank), "it is the id of a special token");
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

JsonSource TokenizerSource(const std::string& path) {
  return {path, 1, "not a tokenizer file", "copy the file again from where it was published"};
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

VocabBuilder::VocabBuilder(const NamedIds& ids, std::string file, Specials specials,
                           Spelling spelling)
    : file_(std::move(file)), specials_(specials), spelling_(spelling) {
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
                   "get the files from where the tokenizer was published, all from one source");
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

void VocabBuilder::AddAdded(AddedToken token) {
  const bool is_there = token.id >= 0 && static_cast<size_t>(token.id) < names_.size() &&
                        !names_[static_cast<size_t>(token.id)].empty();
  AddSpecial({token.text, token.id});
  const bool does_more =
      token.left_strip || token.right_strip || token.single_word || token.normalized;
  std::string bytes;
  if (token.special) {
    if (does_more) vocab_.added.push_back(std::move(token));
    return;
  }
  vocab_.specials.pop_back();
  token.alone = !is_there || !AppendBytes(token.text, bytes);
  vocab_.added.push_back(std::move(token));
}

bool VocabBuilder::AppendBytes(std::string_view name, std::string& bytes) const {
  if (spelling_ == Spelling::kByteNames) return AppendNamedBytes(name, bytes);
  if (name.find(' ') != name.npos) return false;
  for (size_t mark = name.find(kSpaceMark); mark != name.npos; mark = name.find(kSpaceMark)) {
    bytes.append(name.substr(0, mark)) += ' ';
    name.remove_prefix(mark + kSpaceMark.size());
  }
  bytes += name;
  return true;
}

void VocabBuilder::FindByteTokens() {
  if (spelling_ == Spelling::kByteNames) return;
  vocab_.byte_tokens.assign(256, ByteIndex::kNone);
  for (size_t id = 0; id < names_.size(); ++id) {
    const std::string_view name = names_[id];
    if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') continue;
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const size_t high = kHex.find(name[3]), low = kHex.find(name[4]);
    if (high == kHex.npos || low == kHex.npos) continue;
    vocab_.byte_tokens[16 * high + low] = static_cast<int32_t>(id);
  }
  const auto missing = std::ranges::find(vocab_.byte_tokens, ByteIndex::kNone);
  if (missing == vocab_.byte_tokens.end()) return;
  Refuse(fmt::format("the token <0x{:02X}> is missing", missing - vocab_.byte_tokens.begin()),
         "a vocabulary of characters needs a token for each byte");
}

void VocabBuilder::MakeTokens() {
  std::ranges::sort(vocab_.specials, {}, &SpecialToken::id);
  std::ranges::sort(vocab_.added, {}, &AddedToken::id);
  FindByteTokens();
  const std::vector<int32_t>& byte_tokens = vocab_.byte_tokens;
  auto special = vocab_.specials.begin();
  size_t room = 0;
  for (const std::string_view name : names_) room += name.size();
  vocab_.tokens.Reserve(names_.size(), room);
  std::string bytes;
  for (size_t id = 0; id < names_.size(); ++id) {
    bytes.clear();
    const AddedToken* alone = FindAlone(vocab_, id);
    const auto byte = std::ranges::find(byte_tokens, static_cast<int32_t>(id));
    if (byte != byte_tokens.end()) {
      bytes = static_cast<char>(byte - byte_tokens.begin());
    } else if (alone != nullptr) {
      bytes = alone->text;
    } else if (special != vocab_.specials.end() && static_cast<size_t>(special->id) == id) {
      bytes = special->text;
      if (++special != vocab_.specials.end() && static_cast<size_t>(special->id) == id) {
        Refuse(fmt::format("two special tokens have the id {}", id),
               fmt::format("'{}' is one of them", special->text));
      }
    } else if (!AppendBytes(names_[id], bytes) && specials_ == Specials::kDeclared) {
      Refuse(spelling_ == Spelling::kByteNames
                 ? fmt::format("the token '{}' (id {}) is not in the byte alphabet", names_[id], id)
                 : fmt::format("the token '{}' (id {}) has a space", names_[id], id),
             spelling_ == Spelling::kByteNames
                 ? "ordinary tokens of a byte-level BPE must be"
                 : "spaces are written as U+2581 in such vocabularies");
    }
    vocab_.tokens.Add(bytes);
  }
  index_.emplace(vocab_.tokens, vocab_.tokens.size(), NotMerged(vocab_));
  if (index_->twins()) CheckBpeVocab(vocab_, *index_, file_);  // throws
  made_.resize(names_.size());
  vocab_.merges.reserve(names_.size());
}

int32_t VocabBuilder::Part(std::string_view name, const std::function<std::string()>& where) {
  const size_t begin = pair_.size();
  const int32_t id = AppendBytes(name, pair_) ? index_->Find(std::string_view(pair_).substr(begin))
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
  // Most vocabularies number their tokens in the order of merging.
  const size_t next =
      vocab_.merges.empty() ? 0 : static_cast<size_t>(vocab_.merges.back().merged) + 1;
  const int32_t merged = next < vocab_.tokens.size() && vocab_.tokens[next] == pair_
                             ? static_cast<int32_t>(next)
                             : index_->Find(pair_);
  if (merged == ByteIndex::kNone) {
    throw InputError(fmt::format("{}: the merge creates an unknown token", where()),
                     fmt::format("'{}{}' is not in the vocabulary {}", left, right, file_),
                     "the vocabulary and the merges must come from the same tokenizer");
  }
  vocab_.merges.push_back({left_id, right_id, merged});
  made_[static_cast<size_t>(merged)] = true;
}

void VocabBuilder::AddMergesOf(std::string_view name) {
  if (!index_) MakeTokens();
  pair_.clear();
  if (!AppendBytes(name, pair_)) return;
  const int32_t merged = index_->Find(pair_);
  const std::string_view bytes = pair_;
  for (size_t at = 1; at < bytes.size(); ++at) {
    if (!BeginsCharacter(bytes[at])) continue;
    const int32_t left = index_->Find(bytes.substr(0, at));
    const int32_t right = index_->Find(bytes.substr(at));
    const auto usable = [&](int32_t id) {
      return id != ByteIndex::kNone &&
             FindSpecial(vocab_.specials, static_cast<size_t>(id)) == nullptr;
    };
    if (!usable(left) || !usable(right)) continue;
    vocab_.merges.push_back({left, right, merged});
    made_[static_cast<size_t>(merged)] = true;
  }
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
      for (size_t id = 0; id < names_.size(); ++id) {
        const SpecialToken* special = FindSpecial(vocab_.specials, id);
        tokens.Add(special != nullptr ? std::string_view(special->text) : vocab_.tokens[id]);
      }
      vocab_.tokens = std::move(tokens);
      index_.emplace(vocab_.tokens, vocab_.tokens.size());
    }
  }
  const bool byte_level = spelling_ == Spelling::kByteNames;
  for (int byte = 0; byte < 256 && may_be_partial_ && byte_level; ++byte) {
    const char c = static_cast<char>(byte);
    vocab_.partial = vocab_.partial || index_->Find({&c, 1}) == ByteIndex::kNone;
  }
  CheckBpeVocab(vocab_, *index_, file_);
  return std::move(vocab_);
}

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
        fmt::format("{}: unknown encoding", path),
        fmt::format("'{}' is not one of {}", name, Join(PublishedEncodingNames(), ", ")),
        "a .tiktoken file contains neither pattern nor special tokens: name it after its encoding, "
        "such as cl100k_base.tiktoken");
  }
  const ByteStrings ranked =
      TiktokenReader(path, *encoding).Read(ReadFile(path, kMaxVocabFileBytes));
  return VocabOfRanks(ranked,
                      {.name = std::string(encoding->name),
                       .pattern = encoding->pattern,
                       .specials = encoding->specials},
                      path);
}

BpeVocab VocabOfRanks(const ByteStrings& ranked, BpeVocab vocab, const std::string& where) {
  const size_t last =
      vocab.specials.empty() ? 0 : static_cast<size_t>(vocab.specials.back().id) + 1;
  const size_t size = std::max(ranked.size(), last);
  vocab.tokens.Reserve(size, ranked.total_bytes() + 1024);
  size_t used = 0;
  for (size_t id = 0; id < size; ++id) {
    const SpecialToken* special = FindSpecial(vocab.specials, id);
    vocab.tokens.Add(special != nullptr   ? std::string_view(special->text)
                     : id < ranked.size() ? ranked[id]
                                          : std::string_view());
    if (id < ranked.size() && !ranked[id].empty()) ++used;
  }
  CheckBpeVocab(vocab, where);
  vocab.merges = MergesFromRanks(ranked, static_cast<int32_t>(ranked.size()));
  // A whole pretoken is looked up first, which only matters for tokens that no merge makes.
  constexpr size_t kBytes = 256;
  vocab.whole_pretokens = vocab.merges.size() + kBytes < used;
  return vocab;
}

}  // namespace folio
