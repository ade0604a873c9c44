#pragma once

#include <span>
#include <string>
#include <string_view>

#include "folio/bench/lexicon.h"
#include "folio/bench/writers.h"

namespace folio {

// How a document sets its type.
struct ProseStyle {
  std::string_view open_quote, close_quote;
  std::string_view apostrophe;  // in place of "'" within words
  std::string_view dash;        // with its spaces
  double percent;               // of documents
};

// A writer of languages with spaces between their words: paragraphs of sentences, headings, lists.
class ProseWriter : public BenchWriter {
 public:
  // The percentages of `styles`, which must outlive the writer, sum up to 100.
  explicit ProseWriter(std::span<const ProseStyle> styles) : styles_(styles) {}
  void AppendDocument(Draws& draws, std::string& out) const override;

 protected:
  virtual const Vocabulary& vocabulary() const = 0;

 private:
  std::span<const ProseStyle> styles_;
};

std::unique_ptr<Vocabulary> NewEnglishVocabulary();

}  // namespace folio
