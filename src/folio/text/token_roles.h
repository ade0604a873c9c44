#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace folio {

// What a tokenizer's files say of its tokens beside how text is encoded: the parts that some play,
// and the template that makes a text of a conversation.
struct TokenRoles {
  std::optional<int64_t> begin = {};           // of a text ("bos")
  std::optional<int64_t> end = {};             // of a text ("eos")
  std::optional<int64_t> end_of_turn = {};     // in a conversation ("eot")
  std::optional<int64_t> end_of_message = {};  // after which the same one goes on ("eom")
  std::optional<int64_t> unknown = {};
  std::optional<int64_t> padding = {};
  std::optional<bool> add_begin = {};  // a text is given to the model with `begin` before it
  std::optional<bool> add_end = {};
  std::string chat_template = {};  // in Jinja; empty where there is none

  bool operator==(const TokenRoles&) const = default;
};

}  // namespace folio
