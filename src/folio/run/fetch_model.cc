#include "folio/run/fetch_model.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "folio/base/strings.h"
#include "folio/formats/model_formats.h"

namespace folio {
namespace {

std::optional<PublishedSet> FindModelSet(const std::string& name) {
  const PublishedModel* model = FindPublishedModel(name);
  if (model == nullptr) return std::nullopt;
  RequireFetchedHome("models");
  PublishedSet set{.name = model->name,
                   .summary = model->summary,
                   .dir = PublishedModelDir(*model),
                   .files = model->files};
  for (const PublishedFile& file : set.files) set.paths.push_back(set.dir / file.name);
  return set;
}

std::string DownloadElsewhere(const PublishedSet& set, const std::vector<size_t>& missing) {
  std::vector<std::string> names;
  for (const size_t file : missing) names.emplace_back(set.files[file].name);
  return fmt::format(
      "type it again to go on; without a network, download {} from "
      "https://huggingface.co/openai-community/{}/tree/main elsewhere and put them in {}",
      Join(names, ", "), set.name, set.dir.string());
}

}  // namespace

const PublishedKind& PublishedModelSets() {
  static const PublishedKind kind = {.one = "model",
                                     .many = "models",
                                     .command = "folio fetch",
                                     .contents = "model",
                                     .hashed = false,
                                     .names = PublishedModelNames(),
                                     .find = FindModelSet,
                                     .otherwise = DownloadElsewhere};
  return kind;
}

}  // namespace folio
