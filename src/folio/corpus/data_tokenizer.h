#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/base/fields.h"
#include "folio/data/dataset.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Settings of how text becomes tokens (keys `data.*`).
struct DataConfig {
  std::string tokenizer = "char";  // char | bytes | what OpenTokenizer takes
  std::string add_tokens = "";     // special tokens beside its own, between commas
  std::string chat_template = "";  // of conversations, as OpenChatTemplate takes it; "": its own
  double val_fraction = 0.1;
  std::string val_split = "spread";  // spread | tail
  std::string field = {};            // as in TextOptions
  bool raw = false;                  // files are bytes, whatever they look like

  std::vector<Field> Fields();
};

// The tokenizer that came with the data, or null if nobody knows which one that is. Throws a kInput
// Error if it is not there, or not the one that made the tokens.
std::unique_ptr<Tokenizer> LoadDataTokenizer(const Dataset& data);

// Throws a kInput Error if `checkpoint` holds another tokenizer than `tokenizer`, the data's.
void RequireSameTokenizer(const std::filesystem::path& checkpoint, const Dataset& data,
                          const Tokenizer& tokenizer);

}  // namespace folio
