#include "target.h"
#include "tokenizer_body.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return folio::RunFuzzTarget(folio::TokenizerAgrees, data, size);
}
