#include "folio/bench/texts.h"

#include "folio/base/check.h"
#include "folio/bench/writers.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

std::unique_ptr<BenchWriter> NewWriter(BenchLanguage language) {
  switch (language) {
    case BenchLanguage::kEnglish:
      return NewEnglishWriter();
    case BenchLanguage::kCode:
      return NewCodeWriter();
    case BenchLanguage::kChinese:
      return NewChineseWriter();
    case BenchLanguage::kJapanese:
      return NewJapaneseWriter();
    case BenchLanguage::kRussian:
      return NewRussianWriter();
  }
  FOLIO_CHECK(false, "no such language");
}

}  // namespace

std::string_view BenchLanguageName(BenchLanguage language) {
  switch (language) {
    case BenchLanguage::kEnglish:
      return "english";
    case BenchLanguage::kCode:
      return "code";
    case BenchLanguage::kChinese:
      return "chinese";
    case BenchLanguage::kJapanese:
      return "japanese";
    case BenchLanguage::kRussian:
      return "russian";
  }
  FOLIO_CHECK(false, "no such language");
}

std::string BenchText(BenchLanguage language, size_t bytes, uint64_t seed) {
  const std::unique_ptr<BenchWriter> writer = NewWriter(language);
  Draws draws(seed, RngStream(RngPurpose::kCorpus, 1, static_cast<uint64_t>(language)));
  std::string text;
  text.reserve(bytes + (size_t{1} << 16));
  while (text.size() < bytes) writer->AppendDocument(draws, text);
  text.resize(bytes);
  text.resize(CompleteUtf8Prefix(text));
  return text;
}

}  // namespace folio
