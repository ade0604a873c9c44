#include "folio/corpus/count_tokens.h"

#include <fmt/format.h>

#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/corpus/json_documents.h"
#include "folio/io/json.h"
#include "folio/term/table.h"
#include "folio/term/token_streams.h"

namespace folio {
namespace {

Json ToJson(const TextCount& count) {
  return {{"tokens", count.tokens},
          {"bytes", count.bytes},
          {"characters", count.characters},
          {"bytes_per_token", count.bytes_per_token()}};
}

}  // namespace

TextCount CountText(const Tokenizer& tokenizer, const std::string& file, const SpecialRule& rule,
                    const TextOptions& options) {
  TextStream stream(file, options);
  TextCount count{.name = file};
  const OnEncoded add = [&](std::string_view text, std::span<const int32_t> ids) {
    count.tokens += std::ssize(ids);
    count.bytes += std::ssize(text);
    count.characters += CountCharacters(text);
  };
  if (stream.form().json_lines) {
    ForJsonDocuments(stream, file, options.field,
                     [&](const std::string& text, const std::string& where) {
                       ByteInput input = ByteInput::FromText(text, where);
                       EncodeInput(tokenizer, input, rule, add);
                     });
  } else {
    ByteInput input = stream.AsInput();
    EncodeInput(tokenizer, input, rule, add);
  }
  return count;
}

std::string DescribeCounts(std::vector<TextCount> counts, bool json) {
  TextCount total{.name = "total"};
  for (const TextCount& count : counts) {
    total.tokens += count.tokens;
    total.bytes += count.bytes;
    total.characters += count.characters;
  }
  if (json) {
    Json all = {{"schema", 1}};
    for (const TextCount& count : counts) {
      Json one = {{"file", count.name}};
      one.update(ToJson(count));
      all["files"].push_back(std::move(one));
    }
    all["total"] = ToJson(total);
    return all.dump() + "\n";
  }
  if (counts.size() > 1) counts.push_back(total);
  std::vector<std::vector<std::string>> rows;
  for (const TextCount& count : counts) {
    rows.push_back({WithCommas(count.tokens), WithCommas(count.bytes), WithCommas(count.characters),
                    fmt::format("{:.3f}", count.bytes_per_token()), count.name});
  }
  return RenderTable({">tokens", ">bytes", ">characters", ">bytes/token", "text"}, rows);
}

}  // namespace folio
