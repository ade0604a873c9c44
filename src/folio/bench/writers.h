#pragma once

#include <memory>
#include <string>

#include "folio/bench/draws.h"

namespace folio {

// Writes invented documents of one language.
class BenchWriter {
 public:
  virtual ~BenchWriter() = default;
  // Some kilobytes that end with a line break.
  virtual void AppendDocument(Draws& draws, std::string& out) const = 0;
};

std::unique_ptr<BenchWriter> NewEnglishWriter();
std::unique_ptr<BenchWriter> NewCodeWriter();
std::unique_ptr<BenchWriter> NewChineseWriter();
std::unique_ptr<BenchWriter> NewJapaneseWriter();
std::unique_ptr<BenchWriter> NewRussianWriter();

}  // namespace folio
