#pragma once

#include "folio/backend/cpu/bf16_product.h"

namespace folio::cpu {

// Products by instructions that Highway does not have. REQUIRES: Bf16UnitInUse() says that this
// processor has them, and AmxBegin() before MultiplyAmx on the same thread.
void MultiplyAvx512(const PackedProduct& product);
void MultiplyAmx(const PackedProduct& product);
void AmxBegin();
void AmxEnd();

}  // namespace folio::cpu
