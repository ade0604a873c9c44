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

// The flags that say which model a command works on and how it computes, common to all commands.

// --simd: which instruction set computes.
class SimdFlag {
 public:
  void Add(Flags& flags);
  // Throws a kUsage Error if the machine has no such instruction set.
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

// Sets the number of threads; 0 leaves it as the machine has it.
void UseThreads(int64_t threads);

// --model: where one lies, also as the first argument without the flag: it is to be declared before
// the positionals of a command. --adapter: the directory of one for it. --backend: what computes.
void AddModelFlag(Flags& flags, std::string* model, bool required);
void AddAdapterFlag(Flags& flags, std::string* adapter);
// Throws a kUsage Error for an adapter without a model.
void RequireModelFor(const std::string& adapter, const std::string& model);
void AddBackendFlag(Flags& flags, std::string* backend);
// --preset NAME; *preset is the name, or "" for none.
void AddPresetFlag(Flags& flags, std::string* preset);
// --tokenizer and --special.
void AddTokenizerFlag(Flags& flags, std::string* spec, bool required = true);
void AddSpecialFlag(Flags& flags, std::string* name);

// What a request to stop does where the model computes for long: a pass over a text takes minutes.
enum class OnStop {
  kEnds,              // the command ends within a second, by Stopped
  kEndsButInterrupt,  // but for SIGINT, of which an answer alone ends
  kWaits,             // nothing: the command has other places to stop at
};

// The flags of commands that open a model. A command adds those that it has, in the order in which
// its help lists them; what it does not add keeps the value it has here.
struct ModelFlags {
  std::string model, adapter, tokenizer, chat_template, template_variables,
      load = "map", dtype = "fp32", backend = "cpu";
  bool bf16_cache = false;
  ComputeFlags compute;
  OnStop on_stop = OnStop::kEnds;

  // --model, --adapter and --load.
  void AddModel(Flags& flags, bool required = true);
  void AddLoad(Flags& flags);
  // --tokenizer, --chat-template and --dtype, which is then "auto" if not said: for what only
  // decodes.
  void AddDecoding(Flags& flags);
  void AddDtype(Flags& flags);
  void AddCache(Flags& flags);  // --bf16-cache
  // --threads, --simd and --backend.
  void AddCompute(Flags& flags);

  // Takes --threads and --simd into effect and opens the model, with its note on the console.
  // Throws as OpenModel.
  OpenedModel Open(Console& console) const;
  // Opens another one beside it.
  OpenedModel Open(Console& console, const std::string& path, const std::string& its_adapter) const;
  std::optional<Dtype> cache() const;
};

// The model that a command looks at without a run: a preset's, one that lies somewhere, or the
// one that the settings of all layers describe.
class ModelSettings {
 public:
  // `flags` names the settings that get a flag of their own: "--batch".
  explicit ModelSettings(const std::vector<std::string>& flags = {});
  ModelSettings(const ModelSettings&) = delete;

  // --preset, --model and the flags of the constructor.
  void AddFlags(Flags& flags);
  // Gathers the settings. Throws a kUsage Error if they contradict each other.
  void Resolve(const ConfigSources& sources);
  // The same; with --model the model section is what lies there. Throws a kInput Error if that is
  // no model.
  void Read(const ConfigSources& sources);

  const RunConfig& config() const { return config_; }
  // Where the model lies, or "".
  const std::string& path() const { return model_; }
  // The preset or the path, or "settings".
  std::string name() const;
  // Returns true where a preset or a path says which model it is.
  bool named() const { return !preset_.empty() || !model_.empty(); }
  // Returns true where somebody said what that setting is, and not a preset alone.
  bool told(const std::string& setting) const { return settings_.layer(setting) > Layer::kPreset; }
  // Returns true where that setting has a flag of its own on the command line.
  bool flagged(const std::string& setting) const {
    return settings_.layer(setting) == Layer::kFlag;
  }
  // T: train.context, or n_positions where that is 0. Throws a kUsage Error beyond n_positions.
  int64_t Context() const;

 private:
  std::string preset_, model_;
  RunConfig config_;
  Settings settings_;
};

// Throws a kUsage Error where a command cannot write the file that `flag` names, "-" or a
// directory, and a kRuntime Error where its directory cannot be written to. "" asks for none.
void RequireFileName(const std::string& flag, const std::string& path);

// "1,2,4" as numbers from `least` to `most`. Throws a kUsage Error that names `flag` for others.
std::vector<int64_t> ParseNumbers(const std::string& flag, const std::string& list, int64_t least,
                                  int64_t most);

// All of a text that a person gives to a model. Throws a kInput Error beyond 64 MiB.
std::string ReadAll(ByteInput input);

// "464,2068", or what else ReadIds takes, as tokens of a model with a vocabulary of V; `where` is
// for errors. Throws a kInput Error for what is no id, or none of the model's.
std::vector<int32_t> ParseIds(const std::string& list, const std::string& where, int64_t V);

}  // namespace folio
