#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/formats/model_formats.h"

namespace folio {

// A conversion to make: a model, and the format and place of the result.
struct Conversion {
  std::filesystem::path from = {};  // as FindModel takes it
  std::filesystem::path to = {};
  std::string_view format = {};        // the name of one that can be saved
  Dtype dtype = Dtype::kF32;           // of the matrices, one of the format's
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
  std::string note = {};  // what the other program computes otherwise, "" for nothing
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

// The dtypes that any format holds matrices as, and the name of one: "q8_0".
std::vector<Dtype> SavedDtypes();
std::string NameOfSaved(Dtype dtype);

}  // namespace folio
