#pragma once

#include <filesystem>

#include "folio/formats/found_model.h"

namespace folio {

// A checkpoint of nanochat as its revision of July 2026 writes it: a directory with
// model_NNNNNN.pt, of which the last step's is taken, or that file, and meta_NNNNNN.json beside it.
// The tokenizer is the tokenizer.pkl beside it or in nanochat's tokenizer/, and conversations have
// nanochat's form. Queries and keys are turned the other way round there, which the order of their
// rows makes up for. https://github.com/karpathy/nanochat
bool IsNanochat(const std::filesystem::path& path);
FoundModel OpenNanochat(const std::filesystem::path& path, Loading loading);

}  // namespace folio
