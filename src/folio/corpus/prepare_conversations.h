#pragma once

#include <span>

#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"

namespace folio {

// Returns whether the files hold conversations. Throws a kInput Error where some do and others are
// texts.
bool AreConversations(std::span<const TextInput> inputs);

// PrepareDataset for those. Throws a kUsage Error where special = allow or raise: messages are
// ordinary text.
DatasetInfo PrepareConversations(const PrepareOptions& options, std::span<const TextInput> inputs,
                                 const PrepareHooks& hooks);

}  // namespace folio
