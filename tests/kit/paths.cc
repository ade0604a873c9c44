#include "tests/kit/paths.h"

#include <cstdlib>

namespace folio {
namespace {

std::string IfThere(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

}  // namespace

// The only file that is compiled with paths of the machine: files that include the header compile
// to the same in every checkout.
std::filesystem::path SourceDir() {
  return FOLIO_SOURCE_DIR;
}

std::string ProgramPath() {
  return FOLIO_PROGRAM;
}

std::filesystem::path Fixture(const std::string& name) {
  const std::filesystem::path own = SourceDir() / "tests/fixtures" / name;
  return exists(own) ? own : std::filesystem::path(GoldenFile(name));
}

std::string TestData(const std::string& name) {
  const char* own = std::getenv("FOLIO_TEST_DATA");
  const std::string path = own == nullptr ? "" : IfThere(own + ("/" + name));
  return path.empty() ? IfThere(FOLIO_SOURCE_DIR "/../shared/data/" + name) : path;
}

std::string GoldenFile(const std::string& name) {
  return IfThere(FOLIO_SOURCE_DIR "/../shared/golden/" + name);
}

}  // namespace folio
