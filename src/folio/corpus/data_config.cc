#include "folio/corpus/data_config.h"

#include "folio/text/encodings.h"

namespace folio {
namespace {

std::vector<std::string> TokenizerNames() {
  std::vector<std::string> names = {"char", "bytes"};
  for (const PublishedEncoding& encoding : PublishedEncodings()) names.emplace_back(encoding.name);
  return names;
}

}  // namespace

std::vector<Field> DataConfig::Fields() {
  return {
      Field{"tokenizer", &tokenizer,
            "how text is cut into tokens: a name, a tokenizer's directory, or one of its files"}
          .Suggestions(TokenizerNames())
          .WithFlag("--tokenizer"),
      Field{"val_fraction", &val_fraction, "part at the end of the text held out for evaluation", 0,
            0.9}
          .WithFlag("--val-fraction"),
  };
}

}  // namespace folio
