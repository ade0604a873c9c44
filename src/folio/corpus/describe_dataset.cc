#include "folio/corpus/describe_dataset.h"

#include <fmt/format.h>

#include <iterator>

#include "folio/base/strings.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// 0 if not known.
double TokensPerByte(const DatasetInfo& info) {
  if (info.text_bytes == 0) return 0;
  return static_cast<double>(info.train_tokens + info.val_tokens) /
         static_cast<double>(info.text_bytes);
}

std::string DescribeJson(const std::string& dir, const DatasetInfo& info) {
  const Json json = {{"schema", 1},
                     {"dir", dir},
                     {"tokenizer", info.tokenizer_kind},
                     {"tokenizer_hash", info.tokenizer_hash},
                     {"vocab_size", info.vocab_size},
                     {"dtype", TokenWidthName(info.width)},
                     {"format", TokenFormatName(info.format)},
                     {"special", info.special},
                     {"train_tokens", info.train_tokens},
                     {"val_tokens", info.val_tokens},
                     {"val_blocks", info.val_blocks},
                     {"documents", info.documents},
                     {"text_bytes", info.text_bytes},
                     {"tokens_per_byte", TokensPerByte(info)},
                     {"train_shards", ToJson(info.train_shards)},
                     {"val_shards", ToJson(info.val_shards)},
                     {"sources", ToJson(info.sources)}};
  return json.dump(2) + "\n";
}

std::string DescribeShards(const std::vector<TokenShard>& shards) {
  if (shards.size() == 1) return shards.front().file;
  return fmt::format("{} of {} tokens, {} to {}", WithCommas(std::ssize(shards)),
                     WithCommas(shards.front().tokens), shards.front().file, shards.back().file);
}

}  // namespace

std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json) {
  if (json) return DescribeJson(dir, info);
  const bool known = info.vocab_size > 0;
  const std::string where = info.WhereHeldOut();
  std::string text = fmt::format(
      "directory     {}\n"
      "tokenizer     {}\n"
      "vocabulary    {}\n"
      "train tokens  {}\n"
      "val tokens    {}{}\n"
      "stored as     {}{}\n"
      "train files   {}\n"
      "val files     {}\n",
      dir, known ? info.tokenizer_kind : "unknown", known ? WithCommas(info.vocab_size) : "unknown",
      WithCommas(info.train_tokens), WithCommas(info.val_tokens), where.empty() ? "" : ": " + where,
      TokenWidthName(info.width), info.format == TokenFormat::kLlmC ? " with llm.c's header" : "",
      DescribeShards(info.train_shards), DescribeShards(info.val_shards));
  if (info.text_bytes > 0) {
    text +=
        fmt::format("text          {} in {} document{}, {:.3f} tokens per byte\n",
                    HumanBytes(static_cast<double>(info.text_bytes)), WithCommas(info.documents),
                    info.documents == 1 ? "" : "s", TokensPerByte(info));
  }
  for (const auto& source : info.sources) {
    text += fmt::format("source        {} ({})\n", source.path,
                        HumanBytes(static_cast<double>(source.bytes)));
  }
  return text;
}

}  // namespace folio
