#include "folio/base/error.h"

#include <utility>

namespace folio {

Error::Error(ErrorKind kind, const std::string& what, std::string cause, std::string help)
    : std::runtime_error(what), kind_(kind), cause_(std::move(cause)), help_(std::move(help)) {}

}  // namespace folio
