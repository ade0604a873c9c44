#pragma once

#include <span>

#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/data/shard_writer.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Returns whether the files hold conversations. Throws a kInput Error where some do and others are
// texts.
bool AreConversations(std::span<const TextInput> inputs);

// PrepareDataset for those. Throws a kUsage Error where special = allow or raise: messages are
// ordinary text.
DatasetInfo PrepareConversations(const PrepareOptions& options, std::span<const TextInput> inputs,
                                 const PrepareHooks& hooks);

// What dataset.json says of the tokens of either kind.
DatasetInfo TokensInfo(const PrepareOptions& options, const Tokenizer& tokenizer);

// The shape of the files of a part, "train" or "val".
ShardLayout LayoutOf(const char* part, const PrepareOptions& options, const Tokenizer& tokenizer);

// Completes the files of both parts, and says in `info` which they are.
void FinishParts(ShardWriter& train, ShardWriter& val, DatasetInfo& info);

}  // namespace folio
