#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/formats/suggested_sampling.h"
#include "folio/model_files/stored_model.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A model as it was found, with the tokenizer that came with it.
struct FoundModel {
  std::filesystem::path path = {};  // the file or directory that it was read from
  std::string_view format = {};     // the name of a ModelFormat
  StoredModel model = {};
  // Null where it came without one. It may have more tokens than the model rows (known_tokens).
  std::unique_ptr<Tokenizer> tokenizer = {};
  std::string tokenizer_help = {};  // then: how to get it, where more is known
  SuggestedSampling sampling = {};
};

// A model to write.
struct ModelToSave {
  const GptWeights& weights;
  const Tokenizer* tokenizer = nullptr;  // null: none
  Dtype dtype = Dtype::kF32;             // of the matrices; in "hf" of all tensors
  bool mixed = false;                    // with Q4_K: as Conversion has it
};

// A tensor as it lies in a file, whether folio can use it or not.
struct ListedTensor {
  std::string name = {};
  std::string dtype = {};  // as the format spells it
  Shape shape = {};
  uint64_t bytes = 0;
};
std::vector<ListedTensor> ListTensors(const TensorFile& file);

// For a model that came without a tokenizer from a program whose models usually have GPT-2's: gives
// it that where its vocabulary is of that size, perhaps padded to 50304, and the encoding's files
// are on this machine; else says in tokenizer_help how to get one, `otherwise` for other sizes.
void UseGpt2Encoding(FoundModel& found, const char* otherwise);

// GPT-2's tokenizer, or null where its files are not on this machine.
std::unique_ptr<Tokenizer> FindGpt2Encoding();

}  // namespace folio
