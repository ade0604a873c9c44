#pragma once

#include <cstdint>
#include <string>

#include "folio/cli/flags.h"
#include "folio/io/file.h"

namespace folio {

// --simd: which instruction set computes.
class SimdFlag {
 public:
  void Add(Flags& flags);
  // Throws a kUsage Error if the machine has no such instruction set.
  void Use() const;

 private:
  std::string name_;
};

// --threads and --simd, for commands that have no setting train.threads.
class ComputeFlags {
 public:
  void Add(Flags& flags);
  // Must be called before the first operation.
  void Use() const;

 private:
  int64_t threads_ = 0;
  SimdFlag simd_;
};

// --model: where one lies. --adapter: the directory of one for it. --backend: what computes.
void AddModelFlag(Flags& flags, std::string* model, bool required);
void AddAdapterFlag(Flags& flags, std::string* adapter);
// Throws a kUsage Error for an adapter without a model.
void RequireModelFor(const std::string& adapter, const std::string& model);
void AddBackendFlag(Flags& flags, std::string* backend);

// --load: how the bytes of a model come to memory.
class LoadFlag {
 public:
  void Add(Flags& flags);
  Loading loading() const { return name_ == "read" ? Loading::kRead : Loading::kMap; }

 private:
  std::string name_ = "map";
};

// Sets the number of threads; 0 leaves it as the machine has it.
void UseThreads(int64_t threads);

}  // namespace folio
