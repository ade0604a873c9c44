#pragma once

#include <optional>
#include <string>

#include "folio/term/byte_streams.h"

namespace folio {

// Lines of standard input, one at a time, as they come.
class LineInput {
 public:
  // The next line that is not empty, without its break; none at the end. Throws a kInput Error
  // beyond 1 MiB, and Stopped.
  std::optional<std::string> Next();

 private:
  // Returns true where `held_` begins with a whole line, after waiting for it; at the end the rest
  // is one.
  bool Fill();

  ByteInput input_{"-"};
  std::string held_;
  bool ended_ = false;
};

}  // namespace folio
