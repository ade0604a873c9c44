#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/report/report.h"
#include "folio/train/config.h"

namespace folio {

// The memory that a published model takes, in bytes.
struct ModelMemory {
  std::string name;
  int64_t parameters = 0;
  int64_t file_bytes = 0;  // of its download
  uint64_t write = 0;      // to write one text as long as the sequences, with weights as stored
  uint64_t lora = 0;       // to train adapters
  uint64_t train = 0;      // to train all of it
};

// That of all published models, where sequences of at most so many tokens are written, or trained
// on with these settings and adapters, on a machine with `memory` bytes (0: not known): the copy
// that is saved beside training is taken where there is room for it. What this process holds
// already counts too.
std::vector<ModelMemory> MemoryOfModels(const TrainConfig& train, int64_t tokens, uint64_t memory,
                                        const Backend& backend);

// Those, and which of their uses `memory` bytes are enough for.
Report FitsReport(const std::vector<ModelMemory>& models, uint64_t memory, int64_t tokens);

}  // namespace folio
