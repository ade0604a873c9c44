#include "folio/run/fetch_model.h"

#include <fmt/format.h>

#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/corpus/fetch_published.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/term/table.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

fs::path DirOf(const PublishedModel& model) {
  fs::path dir = PublishedModelDir(model);
  if (!dir.empty()) return dir;
  throw UsageError("there is no place for models",
                   "none of FOLIO_HOME, XDG_CACHE_HOME and HOME is set",
                   "set FOLIO_HOME to a directory for them");
}

// The way to do without the network of this machine.
std::string Elsewhere(const PublishedModel& model, const fs::path& dir) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const PublishedFile& file : model.files) {
    if (!fs::exists(dir / file.name, ignored)) missing.emplace_back(file.name);
  }
  return fmt::format(
      "type it again to go on; without a network, download {} from "
      "https://huggingface.co/openai-community/{}/tree/main elsewhere and put them in {}",
      Join(missing, ", "), model.name, dir.string());
}

}  // namespace

const PublishedModel& PublishedModelNamed(const std::string& name) {
  if (const PublishedModel* model = FindPublishedModel(name)) return *model;
  const std::vector<std::string> names = PublishedModelNames();
  const std::string nearest = Nearest(name, names);
  throw UsageError(fmt::format("there is no published model '{}'", name),
                   "the models are " + Join(names, ", "),
                   nearest.empty() ? "folio fetch --list describes them"
                                   : fmt::format("did you mean '{}'?", nearest));
}

fs::path FetchModel(const PublishedModel& model, const fs::path& from, Console& console,
                    ProgressMode mode) {
  fs::path dir = DirOf(model);
  bool any = false;
  for (const PublishedFile& file : model.files) {
    WantedFile wanted = {dir / file.name, std::string(file.sha256), file.bytes};
    if (IsThere(wanted)) continue;
    any = true;
    CreateDirectories(dir);
    const GuardedDirectory inside(dir);
    if (from.empty()) wanted.otherwise = Elsewhere(model, dir);
    FetchPublished(file, wanted, from.empty() ? from : from / file.name, console, mode);
  }
  console.Note(fmt::format("{} is {} {}{}", model.name, any ? "now in" : "in", dir.string(),
                           any ? "" : " already"));
  return dir;
}

std::string DescribeModels(bool json) {
  Json all = {{"schema", 1}};
  std::vector<std::vector<std::string>> rows;
  for (const PublishedModel& model : PublishedModels()) {
    const fs::path dir = DirOf(model);
    int64_t bytes = 0;
    bool here = true;
    std::error_code ignored;
    for (const PublishedFile& file : model.files) {
      bytes += file.bytes;
      here = here && fs::exists(dir / file.name, ignored);
    }
    all["models"].push_back({{"name", model.name}, {"dir", dir.string()}, {"here", here}});
    rows.push_back({std::string(model.name), here ? "here" : "-",
                    HumanBytes(static_cast<double>(bytes)), std::string(model.summary)});
  }
  return json ? all.dump() + "\n" : RenderTable({"name", "files", ">size", "model"}, rows);
}

}  // namespace folio
