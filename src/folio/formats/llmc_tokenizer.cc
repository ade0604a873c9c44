#include "folio/formats/llmc_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/text/bpe_tokenizer.h"

namespace folio {
namespace {

using TokenizerHeader = std::array<int32_t, 256>;
constexpr int32_t kTokenizerMagic = 20240328, kVersion = 2, kVersionWithoutEnd = 1;
constexpr int32_t kGpt2End = 50256;
constexpr uint64_t kMaxBytes = uint64_t{8} << 20;

std::unique_ptr<Tokenizer> ParseTokenizer(std::string_view bytes, const std::string& path) {
  ByteReader reader(std::as_bytes(std::span(bytes)),
                    fmt::format("{} is not a sound tokenizer of llm.c", path));
  if (reader.Number<int32_t>() != kTokenizerMagic) reader.Fail("it begins with another number");
  const auto version = reader.Number<int32_t>();
  if (version != kVersion && version != kVersionWithoutEnd) {
    reader.Fail(fmt::format("version {} is not known", version));
  }
  const auto count = reader.Number<int32_t>();
  const auto stored_end = reader.Number<int32_t>();
  const int32_t end = version == kVersion ? stored_end : kGpt2End;
  reader.Seek(sizeof(TokenizerHeader));
  if (count < 1 || end < 0 || end >= count || static_cast<size_t>(count) > reader.left()) {
    reader.Fail(fmt::format("{} tokens, the end of text is {}", count, end));
  }
  BpeVocab vocab;
  ByteStrings ranked;
  std::set<std::string_view> single;
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = reader.Text(reader.Number<uint8_t>());
    if (token.empty()) reader.Fail(fmt::format("token {} is empty", id));
    vocab.tokens.Add(token);
    ranked.Add(id == end ? std::string_view() : token);
    if (id == end) vocab.specials.push_back({std::string(token), id});
    if (id != end && token.size() == 1) single.insert(token);
  }
  if (reader.left() != 0) reader.Fail(fmt::format("{} bytes too many", reader.left()));
  constexpr size_t kAllBytes = 256;
  if (single.size() != kAllBytes) return nullptr;
  CheckBpeVocab(vocab, path);
  vocab.merges = MergesFromRanks(ranked, count);
  vocab.whole_pieces = vocab.merges.size() + kAllBytes + 1 < static_cast<size_t>(count);
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

}  // namespace

std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path) {
  return ParseTokenizer(ReadFile(path, kMaxBytes), path.string());
}

std::string LlmcTokenizerBytes(const Tokenizer& tokenizer) {
  const std::optional<int32_t> end = tokenizer.end_of_text();
  if (tokenizer.kind() != "bpe" || !end.has_value()) return "";
  const auto count = static_cast<int32_t>(tokenizer.vocab_size());
  const TokenizerHeader header = {kTokenizerMagic, kVersion, count, *end};
  std::string bytes(reinterpret_cast<const char*>(header.data()), sizeof(header));
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = tokenizer.TokenBytes(id);
    constexpr size_t kLongest = 255;
    if (token.empty() || token.size() > kLongest) return "";
    bytes += static_cast<char>(token.size());
    bytes += token;
  }
  const auto again = ParseTokenizer(bytes, kLlmcTokenizerFile);
  return again != nullptr && again->hash() == tokenizer.hash() ? bytes : "";
}

}  // namespace folio
