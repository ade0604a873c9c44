#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace folio {

// The path of a vocabulary or text that is not part of the project, relative to its collection
// ("gpt2/vocab.bpe"), or "" if it is not here. For tests.
inline std::string TestData(const std::string& name) {
  const char* own = std::getenv("FOLIO_TEST_DATA");
  for (const std::string& dir :
       {std::string(own == nullptr ? "" : own), std::string(FOLIO_SOURCE_DIR "/../shared/data")}) {
    std::error_code ignored;
    if (!dir.empty() && std::filesystem::exists(dir + "/" + name, ignored)) return dir + "/" + name;
  }
  return "";
}

// The same for numbers that must come out ("tokenizer/golden_public.jsonl").
inline std::string GoldenFile(const std::string& name) {
  const std::string path = FOLIO_SOURCE_DIR "/../shared/golden/" + name;
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

}  // namespace folio
