#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/kit/paths.h"

namespace folio {

// Other libraries' results for tokenizers and texts (scripts/tokenizer_goldens.py).
inline const nlohmann::json& TokenizerGoldens() {
  static const auto goldens =
      nlohmann::json::parse(std::ifstream(Fixture("tokenizers.json"), std::ios::binary));
  return goldens;
}

// Random combinations of texts.
inline std::vector<std::string> GoldenTexts() {
  const auto parts = TokenizerGoldens()["parts"].get<std::vector<std::string>>();
  std::vector<std::string> texts;
  uint64_t state = 1;
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int i = 0; i <= round % 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += parts[(state >> 33) % parts.size()];
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

// The hash of the ids of all texts.
inline std::string GoldenHash(
    const std::vector<std::string>& texts,
    const std::function<std::vector<int32_t>(const std::string& text)>& encode) {
  uint64_t value = 0xCBF29CE484222325;
  const auto add = [&](int32_t id) { value = (value ^ static_cast<uint32_t>(id)) * 0x100000001B3; };
  for (const std::string& text : texts) {
    for (const int32_t id : encode(text)) add(id);
    add(-1);
  }
  return fmt::format("{:016x}", value);
}

}  // namespace folio
