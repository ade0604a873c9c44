#include "folio/text/published_encodings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "folio/io/file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr PublishedFile kGpt2Merges = {
    "vocab.bpe", "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe",
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456318};
constexpr PublishedFile kGpt2Ids = {
    "encoder.json", "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json",
    "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1042301};
constexpr PublishedFile kR50k = {
    "r50k_base.tiktoken", "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken",
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", 835554};
constexpr PublishedFile kP50k = {
    "p50k_base.tiktoken", "https://openaipublic.blob.core.windows.net/encodings/p50k_base.tiktoken",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069", 836186};
constexpr PublishedFile kCl100k = {
    "cl100k_base.tiktoken",
    "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", 1681126};
constexpr PublishedFile kO200k = {
    "o200k_base.tiktoken",
    "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", 3613922};

// The conversation tokens of gpt-oss; all other ids are reserved.
std::vector<SpecialToken> HarmonySpecials() {
  constexpr std::pair<int32_t, std::string_view> kNamed[] = {
      {199998, "startoftext"}, {199999, "endoftext"},  {200002, "return"}, {200003, "constrain"},
      {200005, "channel"},     {200006, "start"},      {200007, "end"},    {200008, "message"},
      {200012, "call"},        {200018, "endofprompt"}};
  const auto* named = std::begin(kNamed);
  std::vector<SpecialToken> specials;
  for (int32_t id = 199998; id < 201088; ++id) {
    const bool has_name = named != std::end(kNamed) && named->first == id;
    specials.push_back(
        {has_name ? fmt::format("<|{}|>", (named++)->second) : fmt::format("<|reserved_{}|>", id),
         id});
  }
  return specials;
}

}  // namespace

std::span<const PublishedEncoding> PublishedEncodings() {
  constexpr auto kGpt2 = SplitPattern::kGpt2;
  const SpecialToken end = {std::string(kEndOfTextToken), 50256};
  static const std::vector<PublishedEncoding> table = {
      {"gpt2", "GPT-2, 50,257 tokens", kGpt2, 50256, 50257, {end}, {kGpt2Merges, kGpt2Ids}},
      {"r50k_base", "GPT-3 (the tokens of GPT-2)", kGpt2, 50256, 50257, {end}, {kR50k}},
      {"p50k_base",
       "Codex (GPT-2's tokens and runs of spaces)",
       kGpt2,
       50281,
       50281,
       {end},
       {kP50k}},
      {"p50k_edit",
       "p50k_base with tokens for filling in the middle",
       kGpt2,
       50281,
       50284,
       {end, {"<|fim_prefix|>", 50281}, {"<|fim_middle|>", 50282}, {"<|fim_suffix|>", 50283}},
       {kP50k}},
      {"cl100k_base",
       "GPT-3.5 and GPT-4, 100,277 ids",
       SplitPattern::kCl100k,
       100256,
       100277,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}},
       {kCl100k}},
      {"o200k_base",
       "GPT-4o, 200,019 ids",
       SplitPattern::kO200k,
       199998,
       200019,
       {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}},
       {kO200k}},
      {"o200k_harmony",
       "gpt-oss (o200k_base with tokens for conversations)",
       SplitPattern::kO200k,
       199998,
       201088,
       HarmonySpecials(),
       {kO200k}},
  };
  return table;
}

std::vector<std::string> PublishedEncodingNames() {
  std::vector<std::string> names;
  for (const PublishedEncoding& encoding : PublishedEncodings()) names.emplace_back(encoding.name);
  return names;
}

const PublishedEncoding* FindPublishedEncoding(std::string_view name) {
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    if (encoding.name == name || encoding.name == std::string(name) + "_base") return &encoding;
  }
  return nullptr;
}

std::string FetchedHome(std::string_view kind) {
  for (const auto& [variable, below] :
       {std::pair{"FOLIO_HOME", ""}, {"XDG_CACHE_HOME", "folio"}, {"HOME", ".cache/folio"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return fs::path(value) / below / kind;
  }
  return "";
}

std::string EncodingFile(const PublishedEncoding& encoding, const PublishedFile& file) {
  const fs::path home = FetchedHome("tokenizers");
  if (home.empty()) return "";
  const fs::path own = home / encoding.name / file.name;
  if (Exists(own)) return own;
  for (const PublishedEncoding& other : PublishedEncodings()) {
    const fs::path path = home / other.name / file.name;
    const bool same = std::ranges::any_of(
        other.files, [&](const PublishedFile& theirs) { return theirs.sha256 == file.sha256; });
    if (same && Exists(path)) return path;
  }
  return own;
}

}  // namespace folio
