#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/commands/model_flags.h"
#include "folio/inspect/token_names.h"
#include "folio/term/console.h"

namespace folio {

// These flags and functions are common to the commands that look into a trained model.

// The flags --text, --file and --ids (each may be repeated), --special, --tail and --mask.
struct TextFlags {
  std::vector<std::string> texts, files, ids;
  std::string special = "raise", mask;
  bool tail = false;

  void Add(Flags& flags);
};

// All texts of the flags: those of --text, then --file, then --ids. Throws a kUsage Error if there
// is none; a kInput Error for one without tokens, with more than n_positions of them (but --tail
// keeps the last ones), or that the tokenizer cannot encode. A mask is one text's.
enum class TextLength { kContext, kAny };  // whether n_positions is the most
std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags,
                                 TextLength length = TextLength::kContext);
// The same for a command, `command`, that takes exactly one.
ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command,
                      TextLength length = TextLength::kContext);

// Writes a figure where it was asked for, one of several with their directory, and says so on
// stderr.
void WriteFigure(Console& console, const std::filesystem::path& path, std::string_view svg);

// Throws a kUsage Error where the figure, or the directory of figures, that --svg `path` asks for
// cannot be, or `path` is named as something else, and a kRuntime Error where the directory of the
// one figure cannot be written to: to be called before the work. "" asks for none.
void CheckFigureFile(const std::string& path);
void CheckFigureDirectory(const std::string& path);

// The flag --html FILE: a page instead of text.
struct PageFlag {
  std::string path;

  void Add(Flags& flags);
  // Throws a kUsage Error where there can be no such page, which stdout holds instead of --json's
  // object if it is "-", and a kRuntime Error where its directory cannot be written to: to be
  // called before the work.
  void Check(const Console& console) const;
  bool given() const { return !path.empty(); }
  // Writes the page, and says so on stderr. REQUIRES: given.
  void Write(Console& console, const std::string& page) const;
};

// Throws a kUsage Error where the model has no `what` ("layer") of this index, if one is given.
void CheckIndex(const std::string& what, std::optional<int64_t> index, int64_t count);

// "3,7", "-1" (the last), "all", or "" for the last kDefaultPositions of T. Throws a kUsage Error.
inline constexpr int64_t kDefaultPositions = 32;
std::vector<int64_t> ParsePositions(const std::string& list, int64_t T);

}  // namespace folio
