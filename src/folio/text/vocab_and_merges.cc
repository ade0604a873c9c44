#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/text/encodings.h"
#include "folio/text/vocab_builder.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

void AddMerges(std::string_view text, const std::string& path, VocabBuilder& builder) {
  int64_t number = 0;  // of the line
  const auto where = [&] { return fmt::format("{}:{}", path, number); };
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
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

}  // namespace folio
