#pragma once

#include <optional>
#include <string>

#include "folio/term/byte_streams.h"
#include "folio/term/console.h"

namespace folio {

// Lines of standard input, one at a time, as somebody types them.
class LineInput {
 public:
  explicit LineInput(Console& console) : console_(console), input_("-") {}

  // The next line that is not empty, without its break; none at the end. On a terminal it is asked
  // for. Throws a kInput Error beyond 1 MiB, and Stopped.
  std::optional<std::string> Next();

 private:
  // Whether `held_` begins with a whole line, after waiting for it; at the end the rest is one.
  bool Fill();

  Console& console_;
  ByteInput input_;
  std::string held_;
  bool ended_ = false;
};

}  // namespace folio
