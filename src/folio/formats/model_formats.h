#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/formats/found_model.h"
#include "folio/io/model_dir.h"
#include "folio/text/tokenizer.h"

namespace folio {

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
  // True if its files may hold a tokenizer with more tokens than the model has rows.
  bool more_tokens = false;
  // Lists all tensors, also those of a model that `open` refuses. Throws a kInput Error where that
  // cannot be read either. Null where folio cannot tell.
  std::vector<ListedTensor> (*list)(const std::filesystem::path& path) = nullptr;
  // The ending of its files by which people know them, ".gguf"; "" where it has none of its own.
  std::string_view ending = {};
};

// Returns the tokenizer that files of the format can hold of the model's, which may be null:
// OfKnownTokens where the files need a row for each token and the model has too few. Null means the
// tokenizer itself.
std::unique_ptr<Tokenizer> TokenizerToSave(const ModelFormat& format, const Tokenizer* tokenizer);

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

// Opens the model that an adapter is for (model_files/base_model.h), without the adapter. Throws a
// kInput Error where it is gone, cannot be opened, or has other weights than the adapter was
// trained beside.
FoundModel FindBaseModel(const std::filesystem::path& adapter, Loading loading = Loading::kMap);

// A conversion to make: a model, and the format and place of the result.
struct Conversion {
  std::filesystem::path from = {};  // as FindModel takes it
  std::filesystem::path to = {};
  std::string_view format = {};  // the name of one that can be saved
  Dtype dtype = Dtype::kF32;     // of the matrices, one of the format's
  bool mixed = false;  // with Q4_K: those that matter more in more bits, as llama.cpp's Q4_K_M
  std::filesystem::path adapter = {};  // as FindModel takes it
  bool overwrite = false;
};

// A conversion that was made, and the comparison with its source when it was read back.
struct Converted {
  std::filesystem::path from = {};  // the file or directory that was read
  std::string_view from_format = {};
  int64_t parameters = 0;
  uint64_t bytes = 0;   // of the file, or of the directory's
  int64_t tensors = 0;  // that hold exactly the source's numbers, rounded to their dtype
  int64_t prompt = 0;   // tokens that were run through both
  // The largest difference of a logit, and the largest logit of the source by magnitude.
  double logit_difference = 0, largest_logit = 0;
  std::string note = {};  // what was left out or the other program computes otherwise, "" for none
};

// Steps that a conversion takes, which `progress` is called at the beginning of.
inline constexpr int kConversionSteps = 4;

// Converts a model with its tokenizer, then opens what was written and compares: every tensor with
// what the source's is encoded as, the tokenizers, and the logits of a fixed prompt. Where they
// differ (or anything else is thrown, also by `progress`), the result is removed. Throws a kUsage
// Error where `to` is there and not to be replaced or the format does not hold that dtype, a kInput
// Error where the source cannot be read or the format cannot hold it, a kRuntime Error where the
// result cannot be written, or differs.
Converted ConvertModel(const Conversion& conversion,
                       const std::function<void(int step, std::string_view doing)>& progress);

// The format of that name, if it can be saved. Throws a kUsage Error.
const ModelFormat& SavedFormat(std::string_view name);
// The format that the name of a file or directory to write means: that of its ending, else Hugging
// Face's directory. Throws a kUsage Error for the ending of a file that no format writes.
const ModelFormat& SavedFormatOf(const std::filesystem::path& path);

// The dtypes that any format holds matrices as, and the name of one: "q8_0", mixed "q4_k_m".
std::vector<Dtype> SavedDtypes();
std::string NameOfSaved(Dtype dtype, bool mixed = false);
// The name of a dtype that the name of a file ends in before its ending, "q8_0" of
// "demo-Q8_0.gguf", or "".
std::string SavedDtypeOf(const std::filesystem::path& path);

}  // namespace folio
