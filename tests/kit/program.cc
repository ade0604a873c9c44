#include "tests/kit/program.h"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

#include "tests/kit/directory.h"
#include "tests/kit/paths.h"

namespace folio {

ProgramRun RunShell(const std::filesystem::path& dir, const std::string& text) {
  std::string own = std::filesystem::temp_directory_path() / "folio-run-XXXXXX";
  if (mkdtemp(own.data()) == nullptr) {
    ADD_FAILURE() << "cannot make " << own;
    return {};
  }
  std::ofstream(own + "/script") << text << "\n";
  const std::string command = "cd '" + dir.string() +
                              "' && env -i ${TSAN_OPTIONS:+TSAN_OPTIONS=\"$TSAN_OPTIONS\"} "
                              "PATH=\"$PATH\" HOME=\"$PWD\" F='" +
                              ProgramPath() + "' sh '" + own + "/script' >'" + own + "/out' 2>'" +
                              own + "/err' </dev/null";
  const int status = std::system(command.c_str());
  auto files = FilesBelow(own);
  std::filesystem::remove_all(own);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, files["out"], files["err"]};
}

}  // namespace folio
