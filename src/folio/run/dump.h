#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/train/optimizer.h"

namespace folio {

struct DumpOptions {
  std::filesystem::path model, adapter;  // as FindModel takes them
  std::filesystem::path batch;           // safetensors with `batches` [K,B,T+1] or `tokens` [B,T+1]
  std::filesystem::path out;             // safetensors to write
  std::string backend = "cpu";
  int64_t adamw_steps = 0;  // at most K
  double lr = 1e-3;
  OptimizerSettings optimizer = {};
  double clip = 1.0;
};

struct DumpResult {
  double loss = 0;                         // of the first batch, nats per token
  std::vector<double> losses, grad_norms;  // of each AdamW step, before it
  size_t tensors = 0;                      // written
};

// Writes everything that another implementation of the model can be compared with. For the first
// batch: `logits` (B,T,V), `loss` (1), `grad.<parameter>`, `trace.attn.<layer>` (B,H,T,T) and
// `trace.hidden.<layer>` (B,T,C). After `adamw_steps` steps of AdamW, one on each batch from the
// weights as loaded: `losses`, `grad_norms`, `after.<parameter>`. No dropout; losses and norms are
// F64, all else F32. Throws a kInput Error where the files do not fit, a kUsage Error for more
// steps than batches, a kRuntime Error where `out` cannot be written.
DumpResult WriteDump(const DumpOptions& options);

// The losses, a line for each, or one JSON object (`json`).
std::string DescribeDump(const DumpOptions& options, const DumpResult& result, bool json);

}  // namespace folio
