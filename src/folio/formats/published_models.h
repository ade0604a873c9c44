#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/formats/model_formats.h"
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

// For a model that came without a tokenizer from a program whose models usually have GPT-2's: gives
// it that where its vocabulary is of that size, perhaps padded to 50304, and the encoding's files
// are on this machine; else says in tokenizer_help how to get one, `otherwise` for other sizes.
void UseGpt2Encoding(FoundModel& found, const char* otherwise);

// GPT-2's tokenizer, or null where its files are not on this machine.
std::unique_ptr<Tokenizer> FindGpt2Encoding();

}  // namespace folio
