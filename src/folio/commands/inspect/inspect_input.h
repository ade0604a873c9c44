#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/cli/command_line.h"
#include "folio/commands/model_flags.h"
#include "folio/inspect/token_names.h"
#include "folio/report/report.h"
#include "folio/term/console.h"

namespace folio {

// These flags and functions are common to the commands that look into a trained model.

// The flags --text, --file and --ids (each may be repeated), --special, --tail and --mask.
struct TextFlags {
  std::vector<std::string> texts, files, ids;
  std::string special = "raise", mask;
  bool tail = false;

  void Add(Flags& flags);
  size_t count() const { return texts.size() + files.size() + ids.size(); }
};

// All texts of the flags: those of --text, then --file, then --ids. Tokens of texts begin with what
// the tokenizer puts before texts, which --tail leaves there; those of --ids are as given. Throws a
// kUsage Error if there is none; a kInput Error for one without tokens, with more than n_positions
// of them (but --tail keeps the last ones), or that the tokenizer cannot encode. A mask is one
// text's.
enum class TextLength { kContext, kAny };  // whether n_positions is the most
std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags,
                                 TextLength length = TextLength::kContext);
// The same for a command, `command`, that takes exactly one.
ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command,
                      TextLength length = TextLength::kContext);

// The flags --svg, of a figure or a directory of figures, and --html FILE, a page instead of text.
struct OutputFlags {
  bool directory = false;  // what --svg names
  bool svg_alone = false;  // figures are given instead of text
  std::string svg = {}, html = {};

  // `svg_help` and `placeholder` are those of --svg.
  void Add(Flags& flags, const std::string& svg_help, const std::string& placeholder);
  // Throws a kUsage Error where there can be no such figure, directory or page, which stdout holds
  // instead of --json's object if it is "-", and a kRuntime Error where their directory cannot be
  // written to: to be called before the work.
  void Check(const Console& console) const;
  bool draws() const { return !svg.empty() || !html.empty(); }
  // Writes figures and page, and says so on stderr; then prints the report, unless the page is
  // there for it.
  void Show(Console& console, const Report& report) const;
};

// What the commands that show a view of a model on a text have in common.
struct ViewFlags {
  ModelFlags model = {};
  TextFlags text = {};
  OutputFlags output = {};

  void Add(Flags& flags);  // those of model and text
  void AddModel(Flags& flags);
  // Catches signals, checks the output, and loads the model.
  OpenedModel Open(Console& console) const;
};

// The command `folio inspect dump`.
std::unique_ptr<Command> InspectDump();

// Throws a kUsage Error where the model has no `what` ("layer") of this index, if one is given.
void CheckIndex(const std::string& what, std::optional<int64_t> index, int64_t count);

// "3,7", "-1" (the last), "all", or "" for the last kDefaultPositions of T. Throws a kUsage Error.
inline constexpr int64_t kDefaultPositions = 32;
std::vector<int64_t> ParsePositions(const std::string& list, int64_t T);

}  // namespace folio
