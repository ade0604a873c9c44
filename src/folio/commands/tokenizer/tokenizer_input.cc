#include "folio/commands/tokenizer/tokenizer_input.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/text/encodings.h"

namespace folio {

void AddTokenizerFlag(Flags& flags, std::string* spec, bool required) {
  std::vector<std::string> known = PublishedEncodingNames();
  known.insert(known.begin(), "bytes");
  flags.Value(Field{"tokenizer", spec,
                    "a published encoding (gpt2, cl100k_base), bytes, or the path of a tokenizer's "
                    "directory or file"}
                  .Suggestions(std::move(known)),
              {.placeholder = "NAME|DIR|FILE", .required = required});
}

void AddSpecialFlag(Flags& flags, std::string* name) {
  flags.Value(
      Field{"special", name, "special tokens in the text: an error, their token, or ordinary text"}
          .Choices({"raise", "allow", "ordinary"}));
}

IdFormat IdFormatNamed(const std::string& name, const Tokenizer& tokenizer) {
  constexpr int64_t kU16Ids = int64_t{1} << 16;
  const bool fits = tokenizer.vocab_size() <= kU16Ids;
  if (name == "u16" && !fits) {
    throw UsageError("--format u16: the ids do not fit",
                     fmt::format("this tokenizer has ids up to {}, and 16 bits end at {}",
                                 tokenizer.vocab_size() - 1, kU16Ids - 1),
                     "use --format u32");
  }
  if (name == "u16" || (name == "bin" && fits)) return IdFormat::kU16;
  return name == "text" ? IdFormat::kText : IdFormat::kU32;
}

}  // namespace folio
