#pragma once

// The one header that shows nlohmann's types. Only .cc files may include it, so that no other
// header depends on a JSON library.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace folio {

inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON text (RFC 8259, UTF-8) from an untrusted source. Keys keep their order. Throws a
// kInput Error with `where`, line and column if the text is not JSON, repeats a key of an object,
// nests deeper than kMaxJsonDepth or has anything behind the value. `line` is that on which the
// text begins.
nlohmann::ordered_json ParseJson(std::string_view text, const std::string& where, int64_t line = 1);

}  // namespace folio
