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

// The memory of all published models, to write sequences of at most so many tokens or to train on
// them with these settings and adapters, on a machine with `memory` bytes (0: not known). Includes
// the copy for checkpoints if there is room for it, and the memory that this process has already.
std::vector<ModelMemory> MemoryOfModels(const TrainConfig& train, int64_t tokens, uint64_t memory,
                                        Backend& backend);

// The memory of these models, and the uses for which `memory` bytes are enough.
Report FitsReport(const std::vector<ModelMemory>& models, uint64_t memory, int64_t tokens);

}  // namespace folio
