#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/formats/model_formats.h"
#include "folio/text/tokenizer.h"

namespace folio {

// GPT-2 models as llama.cpp has them: one GGUF file (io/gguf.h) of the architecture "gpt2".
// Linear layers lie as (out,in) there, and the head's matrix may be missing, or repeat the
// embeddings, where it is tied to them.
FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading);

// Matrices become model.dtype, or what llama.cpp's Q4_K_M has them as; the others stay F32. Biases
// that the model leaves out are written as zeros, which other programs ask for; a head that is tied
// to the embeddings is not written.
void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model);

std::vector<ListedTensor> ListGgufTensors(const std::filesystem::path& path);

// llm.c's model files: 256 integers of 32 bits, then all parameters, each kind for all blocks
// together, with the weights of Linear layers (out,in) and wte padded with rows of zeros to a
// multiple of 128. Version 3 is float32, version 5 bfloat16. The tokenizer is the
// gpt2_tokenizer.bin beside the file.
// https://github.com/karpathy/llm.c
bool IsLlmc(const std::filesystem::path& path);
FoundModel OpenLlmc(const std::filesystem::path& path, Loading loading);

// Writes the tokenizer too, and zeros for biases that the model leaves out. Throws a kInput Error
// for a model that llm.c cannot express, a tokenizer that such a file cannot hold, and where
// another gpt2_tokenizer.bin is there already.
void SaveLlmc(const std::filesystem::path& path, const ModelToSave& model);

// llm.c's gpt2_tokenizer.bin: 256 integers of 32 bits, then a length of one byte and the bytes of
// each token, which is all that llm.c needs to decode. It is enough for bytes, for characters, and
// for a byte-level BPE whose merges follow from the ids, as GPT-2's do. The fifth integer, which
// llm.c leaves 0 and does not read, is folio's: how many special tokens there are beside the end of
// text, which are the last.

// Null where the tokens are not those of a tokenizer that folio has. Throws a kInput Error where
// the file is not sound.
std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path);

// The contents of the file; empty for a tokenizer that would not come back from it as itself.
std::string LlmcTokenizerBytes(const Tokenizer& tokenizer);

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

// A checkpoint of nanochat as its revision of July 2026 writes it: a directory with
// model_NNNNNN.pt, of which the last step's is taken, or that file, and meta_NNNNNN.json beside it.
// The tokenizer is the tokenizer.pkl beside it or in nanochat's tokenizer/, and conversations have
// nanochat's form. Queries and keys are turned the other way round there, which the order of their
// rows makes up for. https://github.com/karpathy/nanochat
bool IsNanochat(const std::filesystem::path& path);
FoundModel OpenNanochat(const std::filesystem::path& path, Loading loading);

// GPT-2 as OpenAI released it: a directory of hparams.json, a TensorFlow checkpoint (model.ckpt, or
// what the file `checkpoint` names) and the tokenizer's encoder.json and vocab.bpe.
// https://github.com/openai/gpt-2
bool IsOpenAiCheckpoint(const std::filesystem::path& path);
FoundModel OpenOpenAiCheckpoint(const std::filesystem::path& path, Loading loading);

}  // namespace folio
