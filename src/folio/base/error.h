#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace folio {

// The cause of an error, and therefore the exit status of the command.
enum class ErrorKind {
  kRuntime = 1,   // something failed while running (disk full, no permission)
  kUsage = 2,     // flags or configuration
  kInput = 3,     // an input or a model is missing or corrupt
  kResource = 4,  // out of memory, or no such device
  kDiverged = 5,  // training produced a loss that is not finite
};

// A mistake outside of the program. `what` says where and what; `cause` what was expected and what
// was found; `help` what to do or type. FOLIO_CHECK reports mistakes of programmers instead.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what, std::string cause = {}, std::string help = {})
      : std::runtime_error(what), kind_(kind), cause_(std::move(cause)), help_(std::move(help)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& cause() const { return cause_; }
  const std::string& help() const { return help_; }
  int exit_status() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
  std::string cause_;
  std::string help_;
};

inline Error UsageError(const std::string& what, std::string cause = {}, std::string help = {}) {
  return {ErrorKind::kUsage, what, std::move(cause), std::move(help)};
}
inline Error InputError(const std::string& what, std::string cause = {}, std::string help = {}) {
  return {ErrorKind::kInput, what, std::move(cause), std::move(help)};
}
inline Error RuntimeError(const std::string& what, std::string cause = {}, std::string help = {}) {
  return {ErrorKind::kRuntime, what, std::move(cause), std::move(help)};
}

}  // namespace folio
