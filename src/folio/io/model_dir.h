#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace folio {

// A model directory, as Hugging Face lays it out, holds the configuration, the weights in one of
// kWeightsFiles, the tokenizer's files and, of a run, train_state/.
inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kGenerationConfigFile[] = "generation_config.json";
inline constexpr char kWeightsFile[] = "model.safetensors";
inline constexpr char kWeightsIndexFile[] = "model.safetensors.index.json";  // of shards
inline constexpr char kTorchWeightsFile[] = "pytorch_model.bin";
inline constexpr char kTorchIndexFile[] = "pytorch_model.bin.index.json";  // of such shards
// The first that is there is read; where none is, the first of which there is a variant, as
// transformers names them: model.fp16.safetensors, model.safetensors.index.fp16.json.
inline constexpr std::array kWeightsFiles = {kWeightsFile, kWeightsIndexFile, kTorchWeightsFile,
                                             kTorchIndexFile};

// The tokenizer of a directory.
inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
inline constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr std::string_view kVocabFile = "vocab.json";
inline constexpr std::string_view kMergesFile = "merges.txt";
inline constexpr std::string_view kNanochatTokenizerFile = "tokenizer.pkl";
// Older writers of transformers leave special tokens beyond the vocabulary in a file beside these
// two.
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";
// The files that Tokenizer::Save may write.
inline constexpr std::array<std::string_view, 4> kTokenizerFiles = {
    kTokenizerFile, kTokenizerConfigFile, kVocabFile, kMergesFile};

// A published file: where it lies on the network and what it must hash to.
struct PublishedFile {
  std::string_view name;  // under which folio keeps it: "vocab.bpe", "cl100k_base.tiktoken"
  std::string_view url;
  std::string_view sha256;  // 64 hexadecimal digits
  int64_t bytes;
};

// nanoGPT's pickle beside a data set or a checkpoint, which says the tokens.
inline constexpr char kNanoGptMetaFile[] = "meta.pkl";

// Checkpoints of a run: both are whole model directories; `last` has train_state/ too. A run that
// trains adapters has them merged there, and by themselves in adapter/.
inline constexpr char kLastDir[] = "last";
inline constexpr char kBestDir[] = "best";
inline constexpr char kAdapterDir[] = "adapter";
// An adapter (model_files/adapter_files.h): the second file holds its weights, the third those of
// one that PEFT before 0.5 saved.
inline constexpr char kAdapterConfigFile[] = "adapter_config.json";
inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";
inline constexpr char kAdapterTorchFile[] = "adapter_model.bin";
// The model that a run trains adapters for, as it was when training began.
inline constexpr char kBaseDir[] = "base";
// Beside an adapter that stands for a whole model: the model that it is for (model/base_model.h).
// Both checkpoints of a run with train.save "adapter" are such directories.
inline constexpr char kBaseModelFile[] = "base_model.json";

// While the run of a run directory is replaced, the new run grows in the first, and for an instant
// the old one lies in the second (run/run_directory.h).
inline constexpr char kNewRunDir[] = ".new";
inline constexpr char kOldRunDir[] = ".old";

// The file of `dir` that the weights are read from; empty if there is none. Throws a kInput Error
// where there are several variants to choose from.
std::filesystem::path FindWeightsFile(const std::filesystem::path& dir);

// Returns whether a file of that name holds weights, or is an index of such, that have their
// configuration beside them; and, of such a file, whether it is an index, and whether it is
// PyTorch's.
bool IsWeightsName(const std::filesystem::path& path);
bool IsIndexName(const std::filesystem::path& path);
bool IsTorchName(const std::filesystem::path& path);

// Says which program's model a file is, or one of those in a directory: "model.onnx is ONNX's,
// which folio does not read", or that a file is empty. "" where none is known.
std::string OtherProgramsModel(const std::filesystem::path& path);

// The directory of a model that is given as that, or as its weights alone.
std::filesystem::path DirOfModel(const std::filesystem::path& path);

// The model directory that `dir` means: itself if it holds a model, or an adapter and the name of
// its model, else, for a run directory,
// best/ or last/, also where a crash left them aside. `dir` if it is neither: loading it says what
// is missing.
std::filesystem::path FindModelDir(const std::filesystem::path& dir);

}  // namespace folio
