#include "folio/infer/generator.h"

namespace folio {

FinishReason Generator::Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                 uint64_t rng_stream,
                                 const std::function<bool(const NewToken&)>& on_token) {
  FinishReason reason = FinishReason::kCancelled;
  const DecodeBatch::Id id =
      batch_.Add({.prompt = {prompt.begin(), prompt.end()},
                  .options = options,
                  .rng_stream = rng_stream,
                  .on_token = on_token,
                  .on_end = [&](FinishReason why, const GenerateStats& stats) {
                    reason = why;
                    stats_ = stats;
                  }});
  try {
    while (batch_.Step()) {
    }
  } catch (...) {
    batch_.Cancel(id);  // it knows this call's variables
    throw;
  }
  return reason;
}

}  // namespace folio
