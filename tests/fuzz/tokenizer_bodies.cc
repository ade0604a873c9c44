#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bodies.h"
#include "folio/base/error.h"
#include "folio/base/simd_targets.h"
#include "folio/text/bpe_encoder.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encodings.h"
#include "folio/text/streaming.h"
#include "folio/text/test_split_pretokens.h"
#include "folio/text/test_tokenizer_properties.h"
#include "folio/text/test_vocab.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/tokenizer_json_writer.h"
#include "folio/text/vocab_files.h"
#include "input.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/tokenizer_goldens.h"

namespace folio {
namespace {

using Ids = std::vector<int32_t>;

constexpr size_t kLongestText = 12000;

struct Subject {
  explicit Subject(const BpeVocab& vocab) : tokenizer(vocab), model(vocab) {
    std::vector<bool> special(vocab.tokens.size());
    for (const SpecialToken& token : vocab.specials) special[static_cast<size_t>(token.id)] = true;
    for (size_t id = 0; id < special.size(); ++id) {
      if (!special[id]) whole.emplace(model.vocab().tokens[id], static_cast<int32_t>(id));
    }
  }

  BpeTokenizer tokenizer;
  BpeModel model;
  std::unordered_map<std::string_view, int32_t> whole;  // tokens that are not special
};

// A trained vocabulary, with many words that no merge makes.
BpeVocab WithWords(BpeVocab vocab) {
  AddWords(vocab, 1000, 1);
  return vocab;
}

// A trained vocabulary, with special tokens, one of which begins another and one of which looks
// like a word.
BpeVocab WithSpecials(BpeVocab vocab) {
  for (const char* special : {"<|endoftext|><|", "cab", "\n\n"}) AddSpecial(vocab, special);
  return vocab;
}

const std::vector<std::unique_ptr<Subject>>& Subjects() {
  static const std::vector<std::unique_ptr<Subject>> subjects = [] {
    std::vector<std::unique_ptr<Subject>> made;
    const auto add = [&](const BpeVocab& vocab) {
      CheckBpeVocab(vocab, "a vocabulary of the fuzzer");
      made.push_back(std::make_unique<Subject>(vocab));
    };
    for (const SplitPattern pattern : kSplitPatterns) add(LearntVocab(1, 700, pattern));
    add(LearntVocab(2, 257));
    add(ChainVocab().second);
    add(ImproperVocab(false));
    add(ImproperVocab(true));
    add(WideVocab(LearntVocab(3, 500)));
    add(WithSpecials(LearntVocab(5, 280)));
    add(WithWords(LearntVocab(4, 300)));
    if (const std::string merges = TestData("gpt2/vocab.bpe"); !merges.empty()) {
      add(ReadVocabAndMerges(TestData("gpt2/encoder.json"), merges, {.name = "gpt2"}));
    }
    return made;
  }();
  return subjects;
}

void AppendPretoken(const Subject& subject, std::string_view pretoken, MergeScratch& scratch,
                    Ids& ids) {
  if (subject.model.vocab().whole_pretokens) {
    if (const auto found = subject.whole.find(pretoken); found != subject.whole.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  MergeByHeap(subject.model, pretoken, scratch, ids);
}

Ids Expected(const Subject& subject, std::string_view text) {
  Ids ids;
  MergeScratch scratch;
  for (const std::string_view pretoken : PretokensOf(subject.model.vocab().pattern, text)) {
    AppendPretoken(subject, pretoken, scratch, ids);
  }
  return ids;
}

// Special tokens are found by trying every one at every place.
Ids ExpectedWithSpecials(const Subject& subject, std::string_view text) {
  Ids ids;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    const SpecialToken* longest = nullptr;
    for (const SpecialToken& token : subject.tokenizer.special_tokens()) {
      if (text.substr(at).starts_with(token.text) &&
          (longest == nullptr || token.text.size() > longest->text.size())) {
        longest = &token;
      }
    }
    if (longest != nullptr || at == text.size()) {
      const Ids before = Expected(subject, text.substr(begin, at - begin));
      ids.insert(ids.end(), before.begin(), before.end());
    }
    if (longest != nullptr) ids.push_back(longest->id);
    at += longest == nullptr ? 1 : longest->text.size();
    if (longest != nullptr) begin = at;
  }
  return ids;
}

// The text of the rest of the input: itself; numbers of tokens; itself repeated to an extreme
// length; or parts of the word that is hardest to cut.
std::string Text(const Subject& subject, FuzzInput& input) {
  const ByteStrings& tokens = subject.model.vocab().tokens;
  switch (input.Byte() % 4) {
    case 0: {
      std::string text;
      while (!input.empty() && text.size() < kLongestText) {
        text += tokens[input.Word() % tokens.size()];
      }
      return text;
    }
    case 1: {
      const size_t times = 1 + size_t{input.Byte()} * 8;
      const std::string_view part = input.Rest();
      return part.empty() ? "" : Repeated(part, std::min(times * part.size(), kLongestText));
    }
    case 2: {
      static const std::string word = ChainVocab().first;
      std::string text;
      while (!input.empty() && text.size() < kLongestText) {
        text += word.substr(input.Word() % word.size(), input.Word() % word.size());
        text += input.Take(1);
      }
      return text;
    }
    default:
      return std::string(input.Rest());
  }
}

testing::AssertionResult MergersAgree(const Subject& subject, std::string_view text) {
  MergeScratch scratch;
  for (size_t begin = 0; begin < text.size() && begin < 4 * kScanBytes; begin += kScanBytes / 2) {
    const std::string_view pretoken = text.substr(begin, kScanBytes);
    Ids by_heap;
    MergeByHeap(subject.model, pretoken, scratch, by_heap);
    Ids by_scan(pretoken.size());
    by_scan.resize(MergeByScan(subject.model, pretoken, by_scan.data()));
    if (by_scan != by_heap) return testing::AssertionFailure() << "scan and heap differ";
    Ids explained;
    for (const char byte : pretoken)
      explained.push_back(subject.model.byte_id(static_cast<uint8_t>(byte)));
    for (const BpeTokenizer::MergeStep& step : subject.tokenizer.Explain(pretoken)) {
      if (step.before != explained) return testing::AssertionFailure() << "steps do not follow";
      explained[step.at] = step.merged;
      explained.erase(explained.begin() + static_cast<ptrdiff_t>(step.at) + 1);
    }
    if (explained != by_heap) return testing::AssertionFailure() << "heap and Explain differ";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult WindowsAgree(const Subject& subject, std::string_view text, TestRng& rng) {
  if (!subject.model.proper() || text.empty()) return testing::AssertionSuccess();
  MergeScratch scratch;
  Ids by_heap;
  MergeByHeap(subject.model, text, scratch, by_heap);
  Ids by_windows;
  const size_t window = 2 * subject.model.longest_token() + rng.Below(100);
  MergeByWindows(subject.model, text, window, true, scratch, by_windows);
  return properties::Same(by_windows, by_heap, "by windows");
}

testing::AssertionResult EncodersAgree(const Subject& subject, std::string_view text) {
  const SplitPattern pattern = subject.model.vocab().pattern;
  const Ids expected = Expected(subject, text);
  for (const std::string& target : SimdTargets()) {
    ForceSimdTarget(target);
    for (const bool at_end : {true, false}) {
      const size_t capacity = kMinSplitEnds + text.size() % 64;
      if (ManyAtATime(pattern, text, at_end, capacity) == OneByOne(pattern, text, at_end)) continue;
      return testing::AssertionFailure() << "pieces differ on " << target << " at_end " << at_end;
    }
    if (const auto same = MergersAgree(subject, text); !same) {
      return testing::AssertionFailure() << same.message() << " on " << target;
    }
    const Ids ids = subject.tokenizer.EncodeOrdinary(text);
    if (const auto same = properties::Same(ids, expected, "encoder"); !same) {
      return testing::AssertionFailure() << same.message() << " on " << target;
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult SpecialsAgree(const Subject& subject, std::string_view text) {
  const Ids expected = ExpectedWithSpecials(subject, text);
  const Ids ids = subject.tokenizer.Encode(text, "text", SpecialRule::Allow());
  if (const auto same = properties::Same(ids, expected, "specials"); !same) return same;
  const bool found =
      std::ranges::any_of(subject.tokenizer.special_tokens(),
                          [&](const auto& token) { return text.find(token.text) != text.npos; });
  bool raised = false;
  try {
    subject.tokenizer.Encode(text);
  } catch (const Error&) {
    raised = true;
  }
  if (raised == found) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "special tokens are " << (found ? "passed over" : "seen");
}

// Fragments that a file's author may get wrong, for wrong places.
const std::vector<std::string_view>& Fragments() {
  static const std::vector<std::string_view> fragments = [] {
    std::vector<std::string_view> all = {"18446744073709551616",
                                         "\"\\ud800\"",
                                         "\"\\u0000\"",
                                         "\"added_tokens\":[],",
                                         "\"a\":0,",
                                         "\"merges\":[],",
                                         "\"vocab\":{},",
                                         "\"type\":\"BPE\",",
                                         "\"special\":false",
                                         "<|endoftext|>",
                                         "#version: 0.2\n",
                                         "\"normalized\":true",
                                         "\"lstrip\":true",
                                         "\"rstrip\":true",
                                         "\"type\":\"NFC\"",
                                         "\u2581",
                                         "\"first\"",
                                         "<0x0A>",
                                         "\"split\":true",
                                         "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
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
  return {LearntVocab(1, 262),
          LearntVocab(2, 275, SplitPattern::kCl100k),
          LearntVocab(3, 262, SplitPattern::kO200k),
          LearntVocab(4, 260, SplitPattern::kSmolLm),
          ImproperVocab(false),
          ImproperVocab(true)};
}

const std::vector<std::string>& TokenizerFiles() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> made;
    for (const BpeVocab& vocab : Vocabs()) made.push_back(TokenizerJson(vocab));
    for (const nlohmann::json& golden : TokenizerGoldens()["tokenizers"]) {
      nlohmann::json file = TokenizerGoldens()["bases"][golden["base"].get<std::string>()];
      file.merge_patch(golden["patch"]);
      made.push_back(file.dump());
    }
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

// Writes files according to `input` and returns the path to load. A valid tiktoken file has a
// prescribed length and takes time, so it is seldom tried.
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

// Texts are decoded unchanged unless the tokenizer changes them.
bool ChangesTexts(const Tokenizer& tokenizer) {
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  return bpe != nullptr && (!bpe->plain() || bpe->vocab().partial);
}

testing::AssertionResult Works(const Tokenizer& tokenizer, const Scratch& scratch) {
  for (const std::string_view text : {"ab abcab 12 中文é\n", "", "a", "\n \"",
                                      "abcabcabcabcabcabcab", "The e\u0301\u2581 <s>WORD"}) {
    try {
      const Ids ids = tokenizer.EncodeOrdinary(text);
      StreamingEncoder stream(tokenizer);
      Ids streamed;
      for (const char& byte : text) stream.Add({&byte, 1}, streamed);
      stream.Finish(streamed);
      if (streamed != ids) return testing::AssertionFailure() << "a stream has other ids";
      if (tokenizer.DecodeText(ids) == text || ChangesTexts(tokenizer)) continue;
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

testing::AssertionResult TokenizerAgrees(std::string_view bytes) {
  FuzzInput input(bytes);
  const size_t number = input.Byte() % Subjects().size();
  const Subject& subject = *Subjects()[number];
  const std::string target = SimdTargets()[input.Byte() % SimdTargets().size()];
  const uint64_t seed = input.Word();
  // Without the zero behind a string's end, so that nobody reads it.
  const std::string made = Text(subject, input);
  const std::vector<char> exact(made.begin(), made.end());
  const std::string_view text(exact.data(), exact.size());
  TestRng rng(seed);
  testing::AssertionResult holds = EncodersAgree(subject, text);
  ForceSimdTarget(target);
  if (holds) holds = SpecialsAgree(subject, text);
  if (holds) holds = WindowsAgree(subject, text, rng);
  if (holds) holds = TokenizerHolds(subject.tokenizer, text, rng);
  ForceSimdTarget("");
  if (holds) return holds;
  return testing::AssertionFailure()
         << "vocabulary " << number << ", " << target << ": " << holds.message();
}

testing::AssertionResult TokenizerFileIsReadOrRefused(std::string_view bytes) {
  const Scratch& scratch = TheScratch();
  FuzzInput input(bytes);
  scratch.Clear();
  const std::string path = WriteFiles(scratch, input);
  std::unique_ptr<Tokenizer> tokenizer;
  const auto read = ReadOrRefused([&] { tokenizer = LoadTokenizer(path); });
  return tokenizer == nullptr ? read : Works(*tokenizer, scratch);
}

}  // namespace folio
