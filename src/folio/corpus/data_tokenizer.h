#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/data/dataset.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Settings for turning text into tokens (keys `data.*`).
struct DataConfig {
  std::string tokenizer = "char";  // char | bytes | what OpenTokenizer takes
  std::string add_tokens = "";     // further special tokens, separated by commas
  std::string chat_template = "";  // for OpenChatTemplate; "": the tokenizer's own
  double val_fraction = 0.1;
  std::string val_split = "spread";  // spread | tail
  std::string field = {};            // as in TextOptions
  bool raw = false;                  // as in TextOptions

  std::vector<Field> Fields();
};

// The tokenizer that came with the data; null if it is not known. Throws a kInput Error if it is
// missing, or is not the one that made the tokens.
std::unique_ptr<Tokenizer> LoadDataTokenizer(const Dataset& data);

// Throws a kInput Error if `checkpoint` contains a tokenizer other than `tokenizer`, the data's.
void RequireSameTokenizer(const std::filesystem::path& checkpoint, const Dataset& data,
                          const Tokenizer& tokenizer);

}  // namespace folio
