#include "folio/commands/serve/served_files.h"

#include <system_error>

#include "folio/formats/published_models.h"
#include "folio/io/model_dir.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A directory, and the files that links in it lead to: caches keep models so.
void AddDirectory(const fs::path& dir, std::vector<fs::path>& files) {
  files.push_back(dir);
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    if (it->is_symlink(ignored) && it->is_regular_file(ignored)) files.push_back(it->path());
  }
}

}  // namespace

std::vector<fs::path> FilesToOpen(const std::string& model) {
  std::vector<fs::path> files = {TokenizerHome()};  // of models that came without one
  const PublishedModel* published = FindPublishedModel(model);
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) {
    AddDirectory(model, files);
    AddDirectory(FindModelDir(model), files);
  } else if (fs::exists(model, ignored)) {
    const fs::path dir = fs::absolute(model).parent_path();
    AddDirectory(dir, files);
    files.push_back(dir.parent_path() / "data");  // where nanoGPT keeps the tokenizers of its files
  } else if (published != nullptr) {
    AddDirectory(PublishedModelDir(*published), files);
  }
  return files;
}

}  // namespace folio
