#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/model/checkpoint.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A model as it was found, with the tokenizer that came with it.
struct FoundModel {
  std::filesystem::path path = {};  // the file or directory that it was read from
  std::string_view format = {};     // the name of a ModelFormat
  StoredModel model = {};
  std::unique_ptr<Tokenizer> tokenizer = {};  // null where it came without one
  std::string tokenizer_help = {};            // then: how to get it, where more is known
};

// A model to write.
struct ModelToSave {
  const GptWeights& weights;
  const Tokenizer* tokenizer = nullptr;  // null: none
  Dtype dtype = Dtype::kF32;             // of the matrices; in "hf" of all tensors
};

// A tensor as it lies in a file, whether folio can use it or not.
struct ListedTensor {
  std::string name = {};
  std::string dtype = {};  // as the format spells it
  Shape shape = {};
  uint64_t bytes = 0;
};
std::vector<ListedTensor> ListTensors(const TensorFile& file);

// A way in which programs save models.
struct ModelFormat {
  std::string_view name;   // "hf"
  std::string_view title;  // "Hugging Face directory"
  // Returns whether `path`, which is there, looks like such a model, by its contents, not its name.
  bool (*recognises)(const std::filesystem::path& path);
  // Checks everything but the numbers. Throws a kInput Error that names what is wrong, or what
  // folio cannot do.
  FoundModel (*open)(const std::filesystem::path& path, Loading loading);
  // Writes a model that appears as a whole. Throws a kInput Error where the format cannot express
  // it, and a kRuntime Error where it cannot be written. Null where folio only reads.
  void (*save)(const std::filesystem::path& path, const ModelToSave& model) = nullptr;
  // The dtypes that `save` can write matrices as. REQUIRES of its model: one of these.
  std::span<const Dtype> dtypes = {};
  // Lists all tensors, also those of a model that `open` refuses. Throws a kInput Error where that
  // cannot be read either. Null where folio cannot tell.
  std::vector<ListedTensor> (*list)(const std::filesystem::path& path) = nullptr;
};

// All of them.
std::span<const ModelFormat> ModelFormats();

// The format that `path`, a file or a model directory, is of. Throws a kInput Error where there is
// no model.
const ModelFormat& FormatOf(const std::filesystem::path& path);

// Opens what `path` names, in whatever format: a file, a model directory, of a run directory the
// best checkpoint, else the last, or, where nothing is at that path, a published model that was
// fetched (PublishedModels). `adapter` is the directory of one that is added to its weights
// (WithAdapter), or empty. Throws a kInput Error where there is no model, a checkpoint of a run
// whose files are not those of its checksums, or an adapter that is not one for the model.
FoundModel FindModel(const std::filesystem::path& path, Loading loading = Loading::kMap,
                     const std::filesystem::path& adapter = {});

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
