#pragma once

#include <array>
#include <string_view>

#include "folio/tensor/dtype.h"

namespace folio {

// The names in pickles of torch.save.
struct TorchStorage {
  std::string_view global;
  Dtype dtype;
};
inline constexpr std::array kTorchStorages = {
    TorchStorage{"torch.FloatStorage", Dtype::kF32},
    TorchStorage{"torch.DoubleStorage", Dtype::kF64},
    TorchStorage{"torch.HalfStorage", Dtype::kF16},
    TorchStorage{"torch.BFloat16Storage", Dtype::kBF16},
    TorchStorage{"torch.LongStorage", Dtype::kI64},
    TorchStorage{"torch.IntStorage", Dtype::kI32},
    TorchStorage{"torch.ShortStorage", Dtype::kI16},
    TorchStorage{"torch.CharStorage", Dtype::kI8},
    TorchStorage{"torch.ByteStorage", Dtype::kU8},
    TorchStorage{"torch.BoolStorage", Dtype::kBool},
};
inline constexpr std::string_view kRebuiltTensor = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";

}  // namespace folio
