#pragma once

#include <string>
#include <vector>

#include "folio/io/gguf.h"
#include "folio/io/tensor_file.h"
#include "folio/model/config.h"
#include "folio/model_files/families.h"

namespace folio {

// The configuration of a model in a GGUF file: in keys, in which tensors there are, and for rotary
// positions as Llama 3.1 and LongRoPE have them in tensors of divisors (RopeTensors).

// Throws a kInput Error that says what of the file is not supported.
[[noreturn]] void RefuseGguf(const GgufFile& file, const std::string& what, std::string cause,
                             std::string help);

// The family of the file's architecture. Throws a kInput Error where it is none that folio has.
const Family& GgufFamily(const GgufFile& file);

// Throws a kInput Error for a key that is missing, out of range or not understood.
GptConfig ReadGgufConfig(const GgufFile& file, const Family& family);

// Adds the keys of a model that the family expresses (RequireExpressed).
void AddGgufConfig(const Family& family, const GptConfig& config, GgufHeader& header);

// Returns whether a tensor holds divisors of the rotary frequencies, which are no parameter.
bool IsGgufDivisors(const Family& family, const TensorInfo& tensor);

// Adds those tensors for a model that has such. Throws a kInput Error where it would be read as
// other ones.
void AddGgufDivisors(const Family& family, const GptConfig& config,
                     std::vector<TensorToWrite>& tensors);

}  // namespace folio
