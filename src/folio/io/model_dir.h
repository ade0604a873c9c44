#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace folio {

// A model directory in Hugging Face's layout holds the configuration, the weights in one of
// kWeightsFiles, the tokenizer's files and, for a run, train_state/.
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
// Older versions of transformers keep special tokens beyond the vocabulary beside these two.
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";
// The files that Tokenizer::Save may write.
inline constexpr std::array<std::string_view, 4> kTokenizerFiles = {
    kTokenizerFile, kTokenizerConfigFile, kVocabFile, kMergesFile};

// A published file: its address and its hash.
struct PublishedFile {
  std::string_view name;  // its name in folio's cache: "vocab.bpe", "cl100k_base.tiktoken"
  std::string_view url;
  std::string_view sha256;  // 64 hexadecimal digits
  int64_t bytes;
};

// nanoGPT's pickle beside a data set or a checkpoint, which lists the tokens.
inline constexpr char kNanoGptMetaFile[] = "meta.pkl";

// Checkpoints of a run: both are complete model directories; `last` has train_state/ too. A run
// that trains adapters stores merged weights there, and the adapters alone in adapter/.
inline constexpr char kLastDir[] = "last";
inline constexpr char kBestDir[] = "best";
inline constexpr char kAdapterDir[] = "adapter";
// An adapter (model_files/adapter_files.h): the second file holds its weights, the third those of
// an adapter that PEFT before 0.5 saved.
inline constexpr char kAdapterConfigFile[] = "adapter_config.json";
inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";
inline constexpr char kAdapterTorchFile[] = "adapter_model.bin";
// The model that a run trains adapters for, as it was when training began.
inline constexpr char kBaseDir[] = "base";
// Lies beside an adapter that stands for a whole model, and says which model it adapts
// (model_files/base_model.h). Both checkpoints of a run with train.save "adapter" are such
// directories.
inline constexpr char kBaseModelFile[] = "base_model.json";

// While the run in a run directory is being replaced, the new run is in the first, and for an
// instant the old one is in the second (run/run_directory.h).
inline constexpr char kNewRunDir[] = ".new";
inline constexpr char kOldRunDir[] = ".old";

// The file of `dir` to read weights from; empty if there is none. Throws a kInput Error if there
// are several variants to choose from.
std::filesystem::path FindWeightsFile(const std::filesystem::path& dir);

// IsWeightsName returns true if the name is that of weights, or of an index of weights, whose
// configuration lies beside it. The other two tell, for such a name, indexes and PyTorch's files.
bool IsWeightsName(const std::filesystem::path& path);
bool IsIndexName(const std::filesystem::path& path);
bool IsTorchName(const std::filesystem::path& path);

// Says to which other program a file, or one in the directory, belongs: "model.onnx is ONNX's,
// which folio does not read", or that a file is empty. "" if it is not known.
std::string OtherProgramsModel(const std::filesystem::path& path);

// The model's directory, for a path to it or to its weights file.
std::filesystem::path DirOfModel(const std::filesystem::path& path);

// The model directory that `dir` refers to: itself if it holds a model, or an adapter and the name
// of its model; for a run directory, best/ or last/, even where a crash left them under a temporary
// name. Else `dir`: loading it reports what is missing.
std::filesystem::path FindModelDir(const std::filesystem::path& dir);

}  // namespace folio
