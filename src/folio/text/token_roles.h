#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace folio {

// Facts in a tokenizer's files besides the encoding of text: the roles of some tokens, and the
// template that turns a conversation into text.
struct TokenRoles {
  std::optional<int64_t> begin = {};           // begins a text ("bos")
  std::optional<int64_t> end = {};             // ends a text ("eos")
  std::optional<int64_t> end_of_turn = {};     // ends a turn of a conversation ("eot")
  std::optional<int64_t> end_of_message = {};  // after it the same speaker continues ("eom")
  std::optional<int64_t> unknown = {};
  std::optional<int64_t> padding = {};
  std::optional<bool> add_begin = {};  // `begin` is put before a text for the model
  std::optional<bool> add_end = {};
  std::string chat_template = {};  // in Jinja; empty if there is none

  bool operator==(const TokenRoles&) const = default;
};

}  // namespace folio
