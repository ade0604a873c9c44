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

// A torture knows the program, and the workloads with what they leave if nothing happens to them.
class Torture {
 public:
  // Everything lies in `directory`, which is made anew. Throws std::runtime_error where a workload
  // does not run to its end undisturbed.
  Torture(const std::string& program, const std::string& layer, std::filesystem::path directory);

  // Returns whether the layer reaches into the program: not if it is linked statically.
  bool Reaches() const;
  // Runs these workloads (all if empty) undisturbed, twice: the second time under the layer.
  void Prepare(const std::vector<std::string>& names = {});

  // Every trial of these kinds, by its name:
  //   WORKLOAD/kill/SEED          a run is stopped by signals at random moments until it is through
  //   WORKLOAD/fault/RULE|RULE    of FOLIO_FAULTS: for the command, and for what goes on after it
  //   WORKLOAD/cut/N/HOW/SEED     a power cut after N changes
  std::vector<std::string> Faults(const std::string& workload) const;
  std::vector<std::string> Cuts(const std::string& workload, int seeds) const;

  // How many calls on files and changes a workload takes.
  uint64_t Calls(const std::string& workload) const { return prepared_.at(workload).counts.any; }
  size_t Changes(const std::string& workload) const {
    return prepared_.at(workload).journal.size();
  }

  // Makes one trial in the directory of `worker`. Returns what is wrong, or "".
  std::string Try(const std::string& trial, int worker);
  // Says what a power cut took back that an earlier one had left, of the trials made; or "".
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
  // Goes on after whatever happened, to the end, and compares. `resumed` becomes the step that a
  // run went on after, -1 if there was none to go on with.
  std::string GoOn(const Prepared& prepared, int worker, int64_t* resumed = nullptr) const;
  std::string Compared(const Prepared& prepared, int worker) const;
  // A workload that is no run must leave its target as it was or as it becomes.
  std::string WholeOrNot(const Prepared& prepared, int worker) const;

  std::string program_, layer_;
  std::filesystem::path directory_;
  std::map<std::string, Prepared> prepared_;
  Figures figures_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, size_t>, int64_t>
      steps_;  // after cuts that leave no more than they must
};

}  // namespace folio::torture
