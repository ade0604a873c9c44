#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/faults/calls.h"
#include "tests/torture/process.h"
#include "tests/torture/workloads.h"

namespace folio::torture {

struct Figures {
  std::atomic<int64_t> kills{0}, signals{0}, faults{0}, cuts{0}, trials{0};
};

// Knows the program, and the workloads with their undisturbed results.
class Torture {
 public:
  // Everything is in `directory`, which is created anew. Throws std::runtime_error if a workload
  // does not run to its end undisturbed.
  Torture(const std::string& program, const std::string& layer, std::filesystem::path directory);

  // Returns true if the layer works with the program: not if it is linked statically.
  bool Reaches() const;
  // Runs these workloads (all if empty) undisturbed, twice: the second time under the layer.
  void Prepare(const std::vector<std::string>& names = {});

  // Every trial of these kinds, by its name:
  //   WORKLOAD/kill/SEED          a run is stopped by signals at random moments until it is through
  //   WORKLOAD/fault/RULE|RULE    of FOLIO_FAULTS: for the command, and for what goes on after it
  //   WORKLOAD/cut/N/HOW/SEED     a power cut after N changes
  std::vector<std::string> Faults(const std::string& workload) const;
  std::vector<std::string> Cuts(const std::string& workload, int seeds) const;

  // The number of calls on files and of changes in a workload.
  uint64_t Calls(const std::string& workload) const { return prepared_.at(workload).counts.any; }
  size_t Changes(const std::string& workload) const {
    return prepared_.at(workload).journal.size();
  }

  // Makes one trial in the directory of `worker`. Returns the fault, or "".
  std::string Try(const std::string& trial, int worker);
  // Describes steps that a power cut lost although an earlier one had left them, in the trials so
  // far; or "".
  std::string StepsLost() const;

  const Figures& figures() const { return figures_; }
  std::filesystem::path WorkerDirectory(int worker) const;

 private:
  struct Prepared {
    Workload workload;
    Files before, expected;
    std::vector<faults::Change> journal;
    faults::Counts counts;
    uint64_t bytes = 0;  // written
    double seconds = 0;
  };

  Ended Folio(int worker, const Words& words, const std::string& rules = "",
              const std::string& journal = "",
              const std::vector<std::pair<double, int>>& signals = {}) const;
  std::filesystem::path Root(int worker) const { return WorkerDirectory(worker) / "root"; }
  void PutBefore(const Prepared& prepared, int worker) const;
  faults::Counts CountsOf(int worker) const;

  std::string TryKills(const Prepared& prepared, uint64_t seed, int worker);
  std::string TryFault(const Prepared& prepared, const Words& rules, int worker);
  static std::string WrongEnd(const Ended& ended, const std::string& rules);
  std::string TryCut(const Prepared& prepared, size_t changes, const std::string& how,
                     uint64_t seed, int worker);
  // Continues after any disturbance, to the end, and compares. `resumed` becomes the step after
  // which a run continued, -1 if there was none.
  std::string GoOn(const Prepared& prepared, int worker, int64_t* resumed = nullptr) const;
  std::string Compared(const Prepared& prepared, int worker) const;
  // A workload that is no run must leave its target unchanged or complete.
  std::string WholeOrNot(const Prepared& prepared, int worker) const;

  std::string program_, layer_;
  std::filesystem::path directory_;
  std::map<std::string, Prepared> prepared_;
  Figures figures_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, size_t>, int64_t>
      steps_;  // after cuts that keep no more than they must
};

}  // namespace folio::torture
