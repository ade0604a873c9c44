#pragma once

#include <filesystem>

#include "folio/formats/found_model.h"

namespace folio {

// nanoGPT's ckpt.pt, or the directory that it lies in: model_args and the weights; the optimizer's
// moments are passed over. The tokenizer is that of the meta.pkl beside it or in nanoGPT's
// data/NAME, and for a vocabulary of GPT-2's size GPT-2's, where that is on this machine. GELU is
// the exact one, as nanoGPT has it since June 2023. https://github.com/karpathy/nanoGPT
bool IsNanoGpt(const std::filesystem::path& path);
FoundModel OpenNanoGpt(const std::filesystem::path& path, Loading loading);

// Writes the directory that nanoGPT calls out_dir: ckpt.pt, without an optimizer, and of a
// tokenizer of characters meta.pkl, which nanoGPT's sample.py finds if the directory keeps its name
// and lies in nanoGPT's own. GELU in its tanh form becomes the exact one, which is all that nanoGPT
// has. Throws a kInput Error for a model that nanoGPT cannot express, and for a tokenizer that is
// neither of characters nor GPT-2's.
void SaveNanoGpt(const std::filesystem::path& path, const ModelToSave& model);

}  // namespace folio
