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

// Flags and functions shared by the commands that look into a trained model.

// The flags --text, --file and --ids (each may be repeated), --special, --tail and --mask.
struct TextFlags {
  std::vector<std::string> texts, files, ids;
  std::string special = "raise", mask;
  bool tail = false;

  void Add(Flags& flags);
  size_t count() const { return texts.size() + files.size() + ids.size(); }
};

// All texts of the flags: those of --text, then --file, then --ids. Tokens of texts begin with the
// ids that the tokenizer puts before texts, which --tail keeps; those of --ids are taken as given.
// Throws a kUsage Error if there is none; a kInput Error for one without tokens, with more than
// n_positions of them (--tail keeps the last ones), or that the tokenizer cannot encode. A mask
// requires one text.
enum class TextLength { kContext, kAny };  // kContext: at most n_positions
std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags,
                                 TextLength length = TextLength::kContext);
// The same for `command`, which takes exactly one text.
ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command,
                      TextLength length = TextLength::kContext);

// The flags --svg, for a figure or a directory of figures, and --html FILE, a page instead of text.
struct OutputFlags {
  bool directory = false;  // true: --svg names a directory
  bool svg_alone = false;  // true: figures replace the text
  std::string svg = {}, html = {};

  // `svg_help` and `placeholder` belong to --svg.
  void Add(Flags& flags, const std::string& svg_help, const std::string& placeholder);
  // Call before the work. Throws a kUsage Error if such a figure, directory or page is not possible
  // (with "-" it goes to stdout, which --json needs), and a kRuntime Error if its directory is not
  // writable.
  void Check(const Console& console) const;
  bool draws() const { return !svg.empty() || !html.empty(); }
  // Writes figures and page, and reports them on stderr; then prints the report unless there is a
  // page.
  void Show(Console& console, const Report& report) const;
};

// Flags shared by the commands that show a view of a model on a text.
struct ViewFlags {
  ModelFlags model = {};
  TextFlags text = {};
  OutputFlags output = {};

  void Add(Flags& flags);  // adds the flags of model and text
  void AddModel(Flags& flags);
  // Catches signals, checks the output, and loads the model.
  OpenedModel Open(Console& console) const;
};

// The command `folio inspect dump`.
std::unique_ptr<Command> InspectDump();

// Throws a kUsage Error if the model has no `what` ("layer") with this index, if one is given.
void CheckIndex(const std::string& what, std::optional<int64_t> index, int64_t count);

// "3,7", "-1" (the last), "all", or "" for the last kDefaultPositions of T. Throws a kUsage Error.
inline constexpr int64_t kDefaultPositions = 32;
std::vector<int64_t> ParsePositions(const std::string& list, int64_t T);

}  // namespace folio
