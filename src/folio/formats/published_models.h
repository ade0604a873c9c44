#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/encodings.h"

namespace folio {

// A model that OpenAI published, as it lies on huggingface.co: the files of a model directory, the
// largest last.
struct PublishedModel {
  std::string_view name;     // "gpt2-medium"
  std::string_view summary;  // "355M parameters"
  std::vector<PublishedFile> files;
};

std::span<const PublishedModel> PublishedModels();
std::vector<std::string> PublishedModelNames();
// nullptr if there is none of that name.
const PublishedModel* FindPublishedModel(std::string_view name);

// The directory of its files, where they are or are to be: FetchedHome("models")/NAME. Empty where
// there is no such home.
std::filesystem::path PublishedModelDir(const PublishedModel& model);
// The same if the files are there. Throws a kInput Error that says how to get them.
std::filesystem::path FetchedModelDir(const PublishedModel& model);

}  // namespace folio
