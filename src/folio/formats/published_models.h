#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/model/config.h"
#include "folio/text/published_encodings.h"

namespace folio {

// A model that was published, as it lies on huggingface.co: the files of a model directory, the
// largest last.
struct PublishedModel {
  std::string_view name;     // "gpt2-medium"
  std::string_view summary;  // how large it is, and its licence
  std::string page;          // where its files can be seen
  std::string_view config;   // what its config.json says of sizes
  std::vector<PublishedFile> files;
};

std::span<const PublishedModel> PublishedModels();
std::vector<std::string> PublishedModelNames();
// nullptr if there is none of that name.
const PublishedModel* FindPublishedModel(std::string_view name);
// Returns what to do for somebody who named a model that is not there: the published one that was
// meant ("gpt-2", "smollm2:135m"), or that there is none ("gpt-4").
std::string HelpForModelName(std::string_view name);

// Returns the sizes in the model's configuration, without its files.
GptConfig SizesOf(const PublishedModel& model);

// The directory of its files, where they are or are to be: FetchedHome("models")/NAME. Empty where
// there is no such home.
std::filesystem::path PublishedModelDir(const PublishedModel& model);

}  // namespace folio
