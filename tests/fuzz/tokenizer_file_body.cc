#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bodies.h"
#include "changes.h"
#include "folio/base/error.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encodings.h"
#include "folio/text/test_vocab.h"
#include "folio/text/vocab_files.h"
#include "input.h"
#include "scratch.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Fragments that a file's author may get wrong are put where they do not belong.
const std::vector<std::string_view>& Fragments() {
  static const std::vector<std::string_view> fragments = [] {
    std::vector<std::string_view> all = {
        "18446744073709551616", "\"\\ud800\"",       "\"\\u0000\"",
        "\"added_tokens\":[],", "\"a\":0,",          "\"merges\":[],",
        "\"vocab\":{},",        "\"type\":\"BPE\",", "\"special\":false",
        "<|endoftext|>",        "#version: 0.2\n",   "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
    for (const char* part : {"\"",   "{",    "}",    "[",        "]",       ",",        ":",
                             "null", "true", "-1",   "0",        "1e9",     "2097151",  "2097152",
                             "\\",   "\xff", "\xc4", "\xc4\xa0", " ",       "\n",       "\r\n",
                             "=",    "==",   "a",    "a b\n",    "a b c\n", "YQ== 0\n", "////"}) {
      all.emplace_back(part);
    }
    return all;
  }();
  return fragments;
}

std::vector<BpeVocab> Vocabs() {
  return {LearntVocab(1, 262), LearntVocab(2, 275, SplitPattern::kCl100k),
          LearntVocab(3, 262, SplitPattern::kO200k), ImproperVocab(false), ImproperVocab(true)};
}

const std::vector<std::string>& TokenizerFiles() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> made;
    for (const BpeVocab& vocab : Vocabs()) made.push_back(TokenizerJson(vocab));
    made.push_back(ByteTokenizer().FileContents());
    made.push_back(
        CharTokenizer({U'\n', U' ', U'"', U'a', U'b', U'é', U'中', U'\U0001F44D'}).FileContents());
    return made;
  }();
  return files;
}

const std::vector<std::pair<std::string, std::string>>& VocabAndMerges() {
  static const std::vector<std::pair<std::string, std::string>> files = [] {
    std::vector<std::pair<std::string, std::string>> made;
    for (const BpeVocab& vocab : Vocabs()) made.emplace_back(VocabJson(vocab), MergesTxt(vocab));
    return made;
  }();
  return files;
}

// As many tokens as r50k_base has: the bytes, pairs of them, and a longer one.
std::string WholeTiktokenFile() {
  return Replaced(TiktokenFile(), "QUI= ", "QUJDRA== ");
}

// Writes what `input` says and returns what is to be loaded. A tiktoken file that is right has a
// prescribed length and takes its time, so it is seldom tried.
std::string WriteFiles(const Scratch& scratch, FuzzInput& input) {
  const uint8_t kind = input.Byte();
  const uint8_t which = input.Byte();
  if (kind < 128) {
    const std::string& file = TokenizerFiles()[which % TokenizerFiles().size()];
    return scratch.Write("tokenizer.json", ChangedText(file, Fragments(), input));
  }
  if (kind < 200) {
    const auto& [vocab, merges] = VocabAndMerges()[which % VocabAndMerges().size()];
    scratch.Write("vocab.json", which < 128 ? vocab : ChangedText(vocab, Fragments(), input));
    scratch.Write("merges.txt", ChangedText(merges, Fragments(), input));
    return scratch.dir();
  }
  if (kind < 220) return scratch.Write("tokenizer.json", input.Rest());
  if (kind < 235) {
    scratch.Write("vocab.json", input.Take(which));
    scratch.Write("merges.txt", input.Rest());
    return scratch.dir();
  }
  if (kind < 255 || which < 224) return scratch.Write("cl100k_base.tiktoken", input.Rest());
  return scratch.Write("r50k_base.tiktoken", ChangedText(WholeTiktokenFile(), Fragments(), input));
}

testing::AssertionResult Works(const Tokenizer& tokenizer, const Scratch& scratch) {
  for (const std::string_view text :
       {"ab abcab 12 中文é\n", "", "a", "\n \"", "abcabcabcabcabcabcab"}) {
    try {
      if (tokenizer.Decode(tokenizer.EncodeOrdinary(text)) == text) continue;
    } catch (const Error&) {
      continue;  // no token for something in it
    }
    return testing::AssertionFailure() << "not decoded as it was encoded";
  }
  for (const int64_t id : {int64_t{0}, tokenizer.vocab_size() / 2, tokenizer.vocab_size() - 1}) {
    tokenizer.TokenBytes(static_cast<int32_t>(id));
  }
  scratch.Clear();
  tokenizer.Save(scratch.dir());
  if (LoadTokenizer(scratch.dir())->hash() == tokenizer.hash()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not loaded as it was saved";
}

}  // namespace

testing::AssertionResult TokenizerFileIsReadOrRefused(std::string_view bytes) {
  const Scratch& scratch = TheScratch();
  FuzzInput input(bytes);
  scratch.Clear();
  const std::string path = WriteFiles(scratch, input);
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = LoadTokenizer(path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "not a kInput Error: " << error.what();
  }
  return Works(*tokenizer, scratch);
}

}  // namespace folio
