#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/infer/opened_model.h"
#include "folio/text/chat.h"

namespace folio {

// A Prompt is the beginning of a text to continue, or with --chat the question.
struct Prompt {
  std::string text;          // as it is shown: without a tokenizer the ids
  std::vector<int32_t> ids;  // at least one
};

// Where prompts come from: --prompt, --file and --ids (each may be repeated), --prompts, and one
// TEXT without a flag.
struct PromptFlags {
  std::vector<std::string> texts, files, ids, lists;
  std::string positional;
  bool chat = false;  // texts are messages to answer

  void Add(Flags& flags);
  // Returns true where there is any but the one on standard input.
  bool given() const {
    return !(texts.empty() && files.empty() && ids.empty() && lists.empty() && positional.empty());
  }
};

// Returns the format of the model's conversations. Throws a kInput Error where it knows none.
ChatFormat RequireChat(const OpenedModel& model);

// A text to continue. Throws as ReadPrompts does.
Prompt PromptOf(const OpenedModel& model, std::string text, const std::string& where);

// All prompts of the flags, in this order: --prompt, TEXT, --file, --ids, --prompts. Where there is
// none, that of a pipe or file on standard input, else the one with which the model itself begins.
// Throws a kInput Error for what cannot be read, encoded or is none of the model's tokens, and for
// text where the model has no tokenizer.
std::vector<Prompt> ReadPrompts(const OpenedModel& model, const PromptFlags& flags);

}  // namespace folio
