#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/data/dataset.h"
#include "folio/io/settings.h"
#include "folio/run/run_config.h"

namespace folio {

// Settings for whoever gives a text and nothing else. They take the place of a preset: whatever
// else is set stays as it is.

// Returns whether nothing says how large the model is. After Settings::Resolve.
bool SizeIsOpen(const Settings& layers);

// The tokenizer for so many bytes of text: "char", or "" where a byte-level BPE learned from the
// text is worth it.
std::string ChooseTokens(int64_t text_bytes);
inline constexpr int64_t kChosenVocabulary = 4096;  // of that BPE
inline constexpr int64_t kMuchText = 20'000'000;    // bytes of text from which it is

// Sets, as a preset would, size, steps and the rates that go with them, so that training takes
// about `seconds` on this machine, of which some go into measuring it; and says in two lines what
// it chose and why. Text that would be read too often makes the run shorter. REQUIRES: resolved
// settings, which it resolves again.
std::string ChooseSize(RunSettings& settings, const Dataset& data, Backend& backend,
                       double seconds);

// Sets steps likewise for a model whose size is set, and perhaps its batch and context.
std::string ChooseSteps(RunSettings& settings, const Dataset& data, Backend& backend,
                        double seconds);

// Makes evaluations so short, and then so few, that they take a tenth of the run at most, as far as
// nobody set train.eval_batches and train.eval_every; says so in a line, or "" where they stay.
// REQUIRES: resolved settings with train.context, which it resolves again.
std::string LimitEvaluations(RunSettings& settings, int64_t held_out_tokens);

// The positions that the longest conversation of a data set takes; 0 for texts.
int64_t LongestConversation(const Dataset& data);

// A conversation that is longer than a sequence, of train.context tokens, loses its end: in
// sequences of a length that somebody asked for, and then this says how many do, else "". Throws a
// kUsage Error where the length was only chosen for them. REQUIRES: resolved settings.
std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data);

}  // namespace folio
