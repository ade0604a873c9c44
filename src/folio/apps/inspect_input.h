#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/apps/compute_flags.h"
#include "folio/apps/console.h"
#include "folio/apps/flags.h"
#include "folio/backend/backend.h"
#include "folio/model/params.h"
#include "folio/text/tokenizer.h"

namespace folio {

// What the commands that look into a trained model have in common.

// The flags --model, --backend, --threads and --simd.
struct ModelFlags {
  std::string model, backend = "cpu";
  ComputeFlags compute;

  void Add(Flags& flags, bool required = true);
};

// A model ready to be run.
struct OpenedModel {
  std::filesystem::path dir;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<GptWeights> weights;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the directory holds none

  // Throws a kInput Error that says what to do where there is none.
  const Tokenizer& RequireTokenizer() const;
};

// Loads what the flags name: a checkpoint, or a run's best one. Takes --threads and --simd into
// effect. Throws a kInput Error also where model and tokenizer do not fit.
OpenedModel OpenModel(const ModelFlags& flags);

// The flags --text, --file and --ids (each may be repeated), --special and --tail.
struct TextFlags {
  std::vector<std::string> texts, files, ids;
  std::string special = "raise";
  bool tail = false;

  void Add(Flags& flags);
};

// One text as the model sees it: 1 to n_positions tokens.
struct ModelText {
  std::string name;  // "--text", "--ids 2", a file's name
  std::vector<int32_t> ids;
  int64_t left_out = 0;  // tokens before these that --tail took away
};

// All texts of the flags: those of --text, then --file, then --ids. Throws a kUsage Error if there
// is none; a kInput Error for one without tokens, with more than n_positions of them (but --tail
// keeps the last ones), or that the tokenizer cannot encode.
std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags);
// The same for a command, `command`, that takes exactly one.
ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command);
// Throws a kInput Error unless there are at least two tokens; `why` says what for.
void RequireTwoTokens(const ModelText& text, const std::string& why);

// Tokens as something to be shown.
class TokenNames {
 public:
  // `tokenizer` may be null and must outlive the object. `ascii`: for terminals that show no UTF-8.
  explicit TokenNames(const Tokenizer* tokenizer, bool ascii = false)
      : tokenizer_(tokenizer), ascii_(ascii) {}
  TokenNames(const OpenedModel& model, const Terminal& terminal)
      : TokenNames(model.tokenizer.get(), terminal.is_terminal && !terminal.utf8) {}

  // As VisibleToken; "#17" for an id without a token.
  std::string Shown(int32_t id) const;
  std::vector<std::string> Shown(std::span<const int32_t> ids) const;
  // The token's bytes; none for an id without a token.
  std::string_view Bytes(int32_t id) const;
  // JSON texts: {"id":17,"text":" the"}, where "text" is null for an id without a token and
  // has U+FFFD for what is not UTF-8, whose "bytes" are listed then; and an array of them.
  std::string Json(int32_t id) const;
  std::string Json(std::span<const int32_t> ids) const;

 private:
  bool Has(int32_t id) const;

  const Tokenizer* tokenizer_;
  bool ascii_;
};

}  // namespace folio
