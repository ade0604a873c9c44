#include "folio/apps/describe_dataset.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "folio/base/strings.h"

namespace folio {
namespace {

std::string Json(const std::string& dir, const DatasetInfo& info) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const auto& source : info.sources) {
    sources.push_back({{"path", source.path}, {"bytes", source.bytes}});
  }
  const nlohmann::ordered_json json = {{"schema", 1},
                                       {"dir", dir},
                                       {"tokenizer", info.tokenizer_kind},
                                       {"tokenizer_hash", info.tokenizer_hash},
                                       {"vocab_size", info.vocab_size},
                                       {"dtype", TokenWidthName(info.width)},
                                       {"train_tokens", info.train_tokens},
                                       {"val_tokens", info.val_tokens},
                                       {"sources", sources}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json) {
  if (json) return Json(dir, info);
  const bool known = info.vocab_size > 0;
  std::string text = fmt::format(
      "directory     {}\n"
      "tokenizer     {}\n"
      "vocabulary    {}\n"
      "train tokens  {}\n"
      "val tokens    {}\n"
      "stored as     {}\n",
      dir, known ? info.tokenizer_kind : "unknown", known ? WithCommas(info.vocab_size) : "unknown",
      WithCommas(info.train_tokens), WithCommas(info.val_tokens), TokenWidthName(info.width));
  for (const auto& source : info.sources) {
    text += fmt::format("source        {} ({})\n", source.path,
                        HumanBytes(static_cast<double>(source.bytes)));
  }
  return text;
}

}  // namespace folio
