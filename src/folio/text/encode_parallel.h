#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "folio/text/tokenizer.h"

namespace folio {

// Appends EncodeOrdinary of one long text to `ids`, on all threads (base/thread_pool.h): divided at
// FindCut after every `grain` bytes. The ids do not depend on grain or threads. Errors as for
// Tokenizer::EncodeOrdinary. Needs additional memory only for the ids of the few pieces that finish
// before an earlier one. `go_on`, if given, is called on the calling thread, at the start and
// before each of its pieces, with the number of finished bytes; if it returns false EncodeParallel
// returns false too, with some of the ids. REQUIRES: grain >= 1.
bool EncodeParallel(const Tokenizer& tokenizer, std::string_view text, std::string_view where,
                    std::vector<int32_t>& ids, const std::function<bool(size_t done)>& go_on = {},
                    size_t grain = size_t{1} << 20);

// EncodeOrdinary of each text, on all threads; several short texts share a task, and a few short
// ones use one thread. The Error is that of the first text with an error, in "texts[i]".
std::vector<std::vector<int32_t>> EncodeBatch(const Tokenizer& tokenizer,
                                              std::span<const std::string_view> texts);

}  // namespace folio
