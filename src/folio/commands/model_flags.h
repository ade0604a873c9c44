#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/infer/opened_model.h"
#include "folio/io/byte_input.h"
#include "folio/io/settings.h"
#include "folio/run/run_config.h"
#include "folio/term/streams.h"

namespace folio {

// Flags that choose a command's model and how it computes, shared by all commands.

// --simd: the instruction set.
class SimdFlag {
 public:
  void Add(Flags& flags);
  // Throws a kUsage Error if the machine does not have it.
  void Use() const;

 private:
  std::string name_;
};

// --threads and --simd, for commands that have no setting train.threads.
class ComputeFlags {
 public:
  void Add(Flags& flags);
  // Must be called before the first operation.
  void Use() const;

 private:
  int64_t threads_ = 0;
  SimdFlag simd_;
};

// Sets the number of threads; 0 keeps the machine's default.
void UseThreads(int64_t threads);

// --model: a path, also accepted as the first argument without the flag: declare it before the
// positionals of a command. --adapter: the directory of an adapter for it. --backend: the backend.
void AddModelFlag(Flags& flags, std::string* model, bool required);
void AddAdapterFlag(Flags& flags, std::string* adapter);
// Throws a kUsage Error if there is an adapter but no model.
void RequireModelFor(const std::string& adapter, const std::string& model);
void AddBackendFlag(Flags& flags, std::string* backend);
// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);
// --tokenizer and --special.
void AddTokenizerFlag(Flags& flags, std::string* spec, bool required = true);
void AddSpecialFlag(Flags& flags, std::string* name);

// The effect of a request to stop during a long computation: a pass may take minutes.
enum class OnStop {
  kEnds,              // the command ends within a second, by Stopped
  kEndsButInterrupt,  // the same, except for SIGINT, which ends only the current answer
  kWaits,             // none: the command stops in other places
};

// The flags of commands that open a model. A command adds the ones that it needs, in the order of
// its help; the others keep their defaults.
struct ModelFlags {
  std::string model, adapter, tokenizer, chat_template, template_variables,
      load = "map", dtype = "fp32", backend = "cpu";
  bool bf16_cache = false;
  ComputeFlags compute;
  OnStop on_stop = OnStop::kEnds;

  // --model, --adapter and --load.
  void AddModel(Flags& flags, bool required = true);
  void AddLoad(Flags& flags);
  // --tokenizer, --chat-template and --dtype with the default "auto", for commands that generate.
  void AddDecoding(Flags& flags);
  void AddDtype(Flags& flags);
  void AddCache(Flags& flags);  // --bf16-cache
  // --threads, --simd and --backend.
  void AddCompute(Flags& flags);

  // Applies --threads and --simd, and opens the model, with its note on the console. Throws what
  // OpenModel throws.
  OpenedModel Open(Console& console) const;
  // Opens another model in addition.
  OpenedModel Open(Console& console, const std::string& path, const std::string& its_adapter) const;
  std::optional<Dtype> cache() const;
};

// The model of a command that needs no run: a preset, a model at a path, or the one that the
// settings of all layers describe.
class ModelSettings {
 public:
  // `flags` lists the settings that get flags of their own: "--batch".
  explicit ModelSettings(const std::vector<std::string>& flags = {});
  ModelSettings(const ModelSettings&) = delete;

  // Adds --preset, --model and the flags of the constructor.
  void AddFlags(Flags& flags);
  // Resolves the settings. Throws a kUsage Error if they contradict each other.
  void Resolve(const ConfigSources& sources);
  // The same; with --model the section `model` is that model's. Throws a kInput Error if it is
  // none.
  void Read(const ConfigSources& sources);

  const RunConfig& config() const { return config_; }
  // The path of the model, or "".
  const std::string& path() const { return model_; }
  // The preset or the path, or "settings".
  std::string name() const;
  // Returns true if a preset or a path gives the model.
  bool named() const { return !preset_.empty() || !model_.empty(); }
  // Returns true if the user set this setting, not only a preset.
  bool told(const std::string& setting) const { return settings_.layer(setting) > Layer::kPreset; }
  // Returns true if the setting's own flag was given.
  bool flagged(const std::string& setting) const {
    return settings_.layer(setting) == Layer::kFlag;
  }
  // T: train.context, or n_positions if that is 0. Throws a kUsage Error beyond n_positions.
  int64_t Context() const;

 private:
  std::string preset_, model_;
  RunConfig config_;
  Settings settings_;
};

// Throws a kUsage Error if a command cannot write the file that `flag` names ("-" or a directory),
// and a kRuntime Error if its directory is not writable. "" means no file.
void RequireFileName(const std::string& flag, const std::string& path);

// Parses "1,2,4" as numbers from `least` to `most`. Throws a kUsage Error that names `flag`.
std::vector<int64_t> ParseNumbers(const std::string& flag, const std::string& list, int64_t least,
                                  int64_t most);

// Reads a whole text for a model. Throws a kInput Error beyond 64 MiB.
std::string ReadAll(ByteInput input);

// Parses "464,2068", or any other form that ReadIds accepts, as tokens of a model with a vocabulary
// of V; `where` is for errors. Throws a kInput Error for text that is no id, or an id outside of
// the vocabulary.
std::vector<int32_t> ParseIds(const std::string& list, const std::string& where, int64_t V);

}  // namespace folio
