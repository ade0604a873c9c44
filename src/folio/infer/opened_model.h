#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/text/tokenizer.h"

namespace folio {

// A model ready to be run.
struct OpenedModel {
  std::filesystem::path dir;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<GptWeights> weights;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the directory holds none

  // Throws a kInput Error where there is none; `or_else` says what could be done without.
  const Tokenizer& RequireTokenizer(const std::string& or_else = "") const;
};

// Loads what `dir` names: a model directory, or of a run directory the best checkpoint, else the
// last. A `tokenizer` (text/encodings.h) is for a model that came without its own. Throws a kInput
// Error where there is none, or where model and tokenizer do not fit.
OpenedModel OpenModel(const std::filesystem::path& dir, const std::string& backend = "cpu",
                      const std::string& tokenizer = "");

}  // namespace folio
