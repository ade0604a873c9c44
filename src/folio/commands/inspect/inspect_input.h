#pragma once

#include <string>
#include <vector>

#include "folio/cli/compute_flags.h"
#include "folio/cli/flags.h"
#include "folio/inspect/token_names.h"

namespace folio {

// What the commands that look into a trained model have in common.

// The flags --model, --backend, --threads and --simd.
struct ModelFlags {
  std::string model, backend = "cpu";
  ComputeFlags compute;

  void Add(Flags& flags, bool required = true);
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

// All texts of the flags: those of --text, then --file, then --ids. Throws a kUsage Error if there
// is none; a kInput Error for one without tokens, with more than n_positions of them (but --tail
// keeps the last ones), or that the tokenizer cannot encode.
std::vector<ModelText> ReadTexts(const OpenedModel& model, const TextFlags& flags);
// The same for a command, `command`, that takes exactly one.
ModelText ReadOneText(const OpenedModel& model, const TextFlags& flags, const std::string& command);

}  // namespace folio
