#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/utf8.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/streaming.h"
#include "folio/text/test_texts.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Properties of every tokenizer. The tokenizer must have tokens for the whole text.

namespace properties {

inline testing::AssertionResult Same(const std::vector<int32_t>& got,
                                     const std::vector<int32_t>& expected, const char* what) {
  if (got == expected) return testing::AssertionSuccess();
  const auto [a, b] = std::ranges::mismatch(got, expected);
  return testing::AssertionFailure()
         << what << " differs from the whole text's ids from number " << a - got.begin() << " on ("
         << got.size() << " ids instead of " << expected.size() << ")";
}

inline std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace properties

inline std::vector<int32_t> ParallelIds(const Tokenizer& tokenizer, std::string_view text,
                                        std::string_view where = "text",
                                        size_t grain = size_t{1} << 20) {
  std::vector<int32_t> ids;
  EncodeParallel(tokenizer, text, where, ids, {}, grain);
  return ids;
}

// However the text is divided, the ids are those of the whole. `rule` must not make the text an
// error. Pieces have up to `longest` bytes.
inline testing::AssertionResult EncodeMatchesStreaming(
    const Tokenizer& tokenizer, std::string_view text, TestRng& rng, size_t longest = 20,
    const SpecialRule& rule = SpecialRule::Ordinary()) {
  StreamingEncoder encoder(tokenizer, "text", rule);
  const std::vector<int32_t> expected = tokenizer.Encode(text, "text", rule);
  for (int again = 0; again < 2; ++again) {  // the encoder can begin another text
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      const std::string_view piece = text.substr(at, rng.Below(longest + 1));
      encoder.Add(piece, ids);
      at += piece.size();
      if (encoder.held() > at) return testing::AssertionFailure() << "more is held than was given";
    }
    encoder.Finish(ids);
    if (encoder.held() > 0) return testing::AssertionFailure() << "the end is held back";
    if (const auto same = properties::Same(ids, expected, "streaming"); !same) return same;
  }
  return testing::AssertionSuccess();
}

inline testing::AssertionResult EncodeMatchesParallel(const Tokenizer& tokenizer,
                                                      std::string_view text, TestRng& rng) {
  const std::vector<int32_t> expected = tokenizer.EncodeOrdinary(text);
  for (const size_t grain : {size_t{1}, 1 + rng.Below(100), text.size() / 3 + 1}) {
    const std::vector<int32_t> ids = ParallelIds(tokenizer, text, "text", grain);
    if (const auto same = properties::Same(ids, expected, "parallel"); !same) return same;
  }
  if (tokenizer.Count(text) == static_cast<int64_t>(expected.size())) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "Count is " << tokenizer.Count(text) << " instead of " << expected.size();
}

inline testing::AssertionResult BatchMatchesSingle(const Tokenizer& tokenizer,
                                                   const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<std::vector<int32_t>> ids = EncodeBatch(tokenizer, views);
  if (ids.size() != texts.size()) return testing::AssertionFailure() << ids.size() << " results";
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto same = properties::Same(ids[i], tokenizer.EncodeOrdinary(texts[i]), "batch");
    if (!same) return testing::AssertionFailure() << "text " << i << ": " << same.message();
  }
  return testing::AssertionSuccess();
}

inline testing::AssertionResult DecodeRestores(const Tokenizer& tokenizer, std::string_view text) {
  if (tokenizer.Decode(tokenizer.EncodeOrdinary(text)) == text) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "decoded text differs";
}

// The places of FindCut and EncodeDecided keep the promises of tokenizer.h.
inline testing::AssertionResult CutsAreSafe(const Tokenizer& tokenizer, std::string_view text,
                                            TestRng& rng) {
  const std::vector<int32_t> expected = tokenizer.EncodeOrdinary(text);
  const size_t at = rng.Below(text.size() + 1);
  const size_t cut = tokenizer.FindCut(text, at);
  if (cut < at || cut > text.size()) return testing::AssertionFailure() << "cut at " << cut;
  const auto both = properties::Joined(tokenizer.EncodeOrdinary(text.substr(0, cut)),
                                       tokenizer.EncodeOrdinary(text.substr(cut)));
  if (const auto same = properties::Same(both, expected, "cut in two"); !same) {
    return testing::AssertionFailure() << same.message() << " (cut at " << cut << ")";
  }
  const size_t known = rng.Below(text.size() + 1);
  std::vector<int32_t> ids;
  const size_t decided = tokenizer.EncodeDecided(text.substr(0, known), ids);
  if (decided > known) return testing::AssertionFailure() << "decided " << decided;
  ids = properties::Joined(ids, tokenizer.EncodeOrdinary(text.substr(decided)));
  if (const auto same = properties::Same(ids, expected, "decided before the end"); !same) {
    return testing::AssertionFailure()
           << same.message() << " (" << decided << " of " << known << ")";
  }
  const std::string_view complete = text.substr(0, CompleteUtf8Prefix(text.substr(0, known)));
  const size_t last = tokenizer.FindCut(complete, decided + 1);
  if (last >= complete.size()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "decided " << decided << ", but there is a cut at " << last << " of " << known;
}

// Compares offsets with counts in the text before each token. `ids` may be any.
inline testing::AssertionResult OffsetsAgree(const Tokenizer& tokenizer,
                                             const std::vector<int32_t>& ids) {
  const DecodedText decoded = DecodeWithOffsets(tokenizer, ids);
  const std::string bytes = tokenizer.Decode(ids);
  std::vector<size_t> begins;  // of the characters
  for (size_t at = 0; at < bytes.size(); at += DecodeUtf8(bytes, at).length) begins.push_back(at);
  if (decoded.text != tokenizer.DecodeText(ids) || decoded.text != ReplaceInvalidUtf8(bytes) ||
      decoded.bytes.size() != ids.size() || decoded.chars.size() != ids.size()) {
    return testing::AssertionFailure() << "wrong text or number of offsets";
  }
  size_t byte = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto behind = std::ranges::upper_bound(begins, byte);
    const size_t number = static_cast<size_t>(behind - begins.begin());
    const size_t expected = byte == bytes.size() ? begins.size() : number - 1;
    if (decoded.bytes[i] != byte || decoded.chars[i] != expected) {
      return testing::AssertionFailure()
             << "token " << i << " at byte " << decoded.bytes[i] << ", character "
             << decoded.chars[i] << " instead of " << byte << ", " << expected;
    }
    byte += tokenizer.TokenBytes(ids[i]).size();
  }
  return testing::AssertionSuccess();
}

// All of the above for one text.
inline testing::AssertionResult TokenizerHolds(const Tokenizer& tokenizer, std::string_view text,
                                               TestRng& rng) {
  for (const auto& holds :
       {DecodeRestores(tokenizer, text), EncodeMatchesStreaming(tokenizer, text, rng),
        EncodeMatchesStreaming(tokenizer, text, rng, 1, SpecialRule::Allow()),
        EncodeMatchesParallel(tokenizer, text, rng), CutsAreSafe(tokenizer, text, rng),
        OffsetsAgree(tokenizer, tokenizer.EncodeOrdinary(text))}) {
    if (!holds) return testing::AssertionFailure() << holds.message() << " in: " << text;
  }
  return testing::AssertionSuccess();
}

}  // namespace folio
