#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/fields.h"

namespace folio {

// The origin of a value, weakest first.
enum class Layer {
  kBuiltIn,
  kPreset,
  kUserFile,     // $XDG_CONFIG_HOME/folio/config.toml
  kProjectFile,  // folio.toml of the nearest parent directory
  kFile,         // --config FILE, replaces the two before
  kEnvironment,  // FOLIO_TRAIN_SEED
  kSet,          // --set train.seed=1
  kFlag,         // --seed 1
};

// The outside sources of settings: the command line and the process's environment.
struct ConfigSources {
  std::string file = {};                      // --config, or ""
  bool discover = true;                       // look for the user's and the project's file
  std::vector<std::string> sets = {};         // --set, each "key=value"
  std::vector<std::string> environment = {};  // each "NAME=value"
  std::filesystem::path directory = {};       // where the search for folio.toml begins
};

// Values collected from all layers over one list of fields with keys "section.name"; the strongest
// one is used and its origin is kept. Every mistake is a kUsage Error that names the origin.
class Settings {
 public:
  explicit Settings(std::vector<Field> fields);

  const std::vector<Field>& fields() const { return fields_; }

  // Sets a value of one layer; within a layer the last one is used. `origin` is "file:line:column",
  // an environment name or a flag.
  void Set(Layer layer, const std::string& key, const std::string& text, const std::string& origin);
  void UsePreset(const std::string& name,
                 std::span<const std::pair<std::string, std::string>> values);
  void ReadTomlFile(Layer layer, const std::filesystem::path& path);
  void ReadToml(Layer layer, const std::string& text, const std::string& file_name);
  // Takes NAME=value where NAME is FOLIO_, a section, _ and a key; empty values are ignored.
  void ReadEnvironment(std::span<const std::string> environment);
  void ReadSources(const ConfigSources& sources);

  // Writes the strongest value of each key into its field. Overridden values are checked too.
  // Fields without a value get back what they held when the Settings were made.
  void Resolve();

  // Valid after Resolve.
  Layer layer(const std::string& key) const { return Winner(key).layer; }
  const std::string& origin(const std::string& key) const { return Winner(key).origin; }
  // A TOML file that sets every key to its resolved value, with the help texts as comments.
  std::string ToToml() const;

 private:
  struct Entry {
    Layer layer;
    size_t field;  // index into fields_
    std::string text;
    std::string origin;
  };

  // Throws if there is no such key; `in_section` omits the section in the message.
  size_t IndexOf(const std::string& key, const std::string& origin, bool in_section = false) const;
  const Entry& Winner(const std::string& key) const;

  std::vector<Field> fields_;
  std::vector<Entry> entries_;
  std::vector<Entry> winners_;  // one for each field, filled by Resolve
};

}  // namespace folio
