// Trains, kills and resumes; makes every call on files fail; cuts the power. See --help.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <regex>
#include <thread>

#include "tests/torture/torture.h"

namespace folio::torture {
namespace {

namespace fs = std::filesystem;

constexpr char kHelp[] = R"(usage: folio_torture [FLAGS]

Commands that write (training, resuming, replacing, preparing data, converting, ...) are killed at
random moments, have each of their calls on files fail, and lose power after each. After that, the
same command or --resume must lead to the bytes that an undisturbed one leaves, and to nothing else.

  --kills N        signals to survive at least [1000]
  --seconds N      of all trials together; of the faults and cuts those that fit [1800]
  --seed N         chooses moments, and which trials come first; 0 for a new one [0]
  --only TRIAL     this one alone, named as a failure names it
  --workloads A,B  these alone
  --jobs N         trials at a time [as many as there are processors]
  --directory DIR  where to do it [/dev/shm, or the directory for temporary files]
  --program FILE   the folio to torture
  --layer FILE     libfolio_faults.so
  --json           a line of JSON at the end
Exit status: 0 all survived, 1 something did not, 2 wrong usage.
)";

struct Options {
  int64_t kills = 1000;
  double seconds = 1800;
  uint64_t seed = 0;
  std::string only;
  std::vector<std::string> workloads;
  int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  fs::path directory;
  std::string program = FOLIO_PROGRAM, layer = FOLIO_LAYER;
  bool json = false;
};

Options Parse(int count, char** words) {
  Options options;
  const std::map<std::string, std::function<void(const std::string& value)>> flags = {
      {"--kills", [&](const std::string& value) { options.kills = std::stoll(value); }},
      {"--seconds", [&](const std::string& value) { options.seconds = std::stod(value); }},
      {"--seed", [&](const std::string& value) { options.seed = std::stoull(value); }},
      {"--only", [&](const std::string& value) { options.only = value; }},
      {"--workloads", [&](const std::string& value) { options.workloads = Parts(value, ','); }},
      {"--jobs", [&](const std::string& value) { options.jobs = std::max(1, std::stoi(value)); }},
      {"--directory", [&](const std::string& value) { options.directory = value; }},
      {"--program", [&](const std::string& value) { options.program = value; }},
      {"--layer", [&](const std::string& value) { options.layer = value; }},
  };
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--help" || word == "-h") {
      std::cout << kHelp;
      std::exit(0);
    }
    if (word == "--json") {
      options.json = true;
      continue;
    }
    const auto flag = flags.find(word);
    if (flag == flags.end()) throw std::invalid_argument("unknown flag '" + word + "'");
    if (++i == count) throw std::invalid_argument(word + " needs a value");
    flag->second(words[i]);
  }
  if (options.seed == 0) options.seed = std::random_device()() % 1'000'000 + 1;
  if (options.directory.empty()) {
    const fs::path memory = "/dev/shm";
    options.directory = (access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path()) /
                        ("folio-torture-" + std::to_string(getpid()));
  }
  if (!options.only.empty()) options.workloads = {options.only.substr(0, options.only.find('/'))};
  return options;
}

// The failures with one cause, grouped by their text without numbers.
struct Failures {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> trials;
  int64_t count = 0;
};

class Work {
 public:
  explicit Work(const Options& options)
      : options_(options), torture_(options.program, options.layer, options.directory) {}

  int Run() {
    if (!torture_.Reaches()) {
      std::cerr << "torture: the layer does not reach into " << options_.program
                << ": is it linked statically, or with sanitizers?\n";
      return 2;
    }
    torture_.Prepare(options_.workloads);
    begin_ = Now();
    if (!options_.only.empty()) {
      Make(options_.only, 0);
    } else {
      std::cout << "torture: seed " << options_.seed << ", " << options_.jobs << " at a time, in "
                << options_.directory.string() << "\n";
      Kill();
      MakeAll(Planned(), options_.seconds);
    }
    return Report();
  }

 private:
  bool Wanted(const std::string& workload) const {
    return options_.workloads.empty() ||
           std::ranges::find(options_.workloads, workload) != options_.workloads.end();
  }

  void Make(const std::string& trial, int worker) {
    const std::string wrong = torture_.Try(trial, worker);
    if (wrong.empty()) return;
    const std::lock_guard lock(failures_.mutex);
    std::string cause = trial.substr(0, trial.find('/')) + ": " + wrong.substr(0, wrong.find('\n'));
    cause = std::regex_replace(cause, std::regex("[0-9]+"), "N").substr(0, 200);
    std::vector<std::string>& alike = failures_.trials[cause];
    alike.push_back(trial);
    failures_.count += 1;
    if (alike.size() > 1) return;
    const fs::path kept =
        options_.directory / ("failed-" + std::to_string(failures_.trials.size()));
    fs::copy(torture_.WorkerDirectory(worker), kept, fs::copy_options::recursive);
    std::cout << "torture: FAILED " << trial << "\n  " << wrong
              << "\n  again: folio_torture --only '" << trial
              << "'\n  what it left: " << kept.string() << std::endl;
  }

  // All of these, or as many as fit into the time since the start.
  void MakeAll(const std::vector<std::string>& trials, double until) {
    planned_ += static_cast<int64_t>(trials.size());
    std::atomic<size_t> next = 0;
    const auto work = [&](int worker) {
      for (size_t i; Now() - begin_ < until && (i = next++) < trials.size();) {
        Make(trials[i], worker);
        Tell();
      }
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < options_.jobs; ++i) workers.emplace_back(work, i);
    for (std::thread& worker : workers) worker.join();
  }

  void Kill() {
    std::mt19937_64 random(options_.seed);
    std::vector<std::string> runs;
    for (const Workload& workload : Workloads()) {
      if (!workload.resume.empty() && Wanted(workload.name)) runs.push_back(workload.name);
    }
    const Figures& figures = torture_.figures();
    while (!runs.empty() && figures.kills + figures.signals < options_.kills &&
           Now() - begin_ < options_.seconds) {
      std::vector<std::string> trials;
      for (int i = 0; i < 8 * options_.jobs; ++i) {
        // Most are new runs, which have the most to lose.
        const std::string& run = random() % 2 == 0 ? runs[0] : runs[random() % runs.size()];
        trials.push_back(run + "/kill/" + std::to_string(random() % 1'000'000));
      }
      MakeAll(trials, options_.seconds);
    }
  }

  std::vector<std::string> Planned() const {
    std::mt19937_64 random(options_.seed);
    std::vector<std::vector<std::string>> each;
    size_t most = 0;
    for (const Workload& workload : Workloads()) {
      if (!Wanted(workload.name)) continue;
      std::vector<std::string> trials = torture_.Faults(workload.name);
      for (std::string& trial : torture_.Cuts(workload.name, 3)) trials.push_back(std::move(trial));
      std::ranges::shuffle(trials, random);
      most = std::max(most, trials.size());
      each.push_back(std::move(trials));
    }
    // Workloads take turns, so that the small ones are finished early.
    std::vector<std::string> trials;
    for (size_t i = 0; i < most; ++i) {
      for (const auto& own : each) {
        if (i < own.size()) trials.push_back(own[i]);
      }
    }
    return trials;
  }

  std::string Line() const {
    const Figures& figures = torture_.figures();
    return std::to_string(figures.kills) + " kills and " + std::to_string(figures.signals) +
           " other signals, " + std::to_string(figures.faults) + " faults, " +
           std::to_string(figures.cuts) + " power cuts; " + std::to_string(figures.trials) +
           " of " + std::to_string(planned_) + " trials, " + std::to_string(failures_.count) +
           " failed, in " + std::to_string(static_cast<int64_t>(Now() - begin_)) + " s";
  }

  void Tell() {
    const std::lock_guard lock(failures_.mutex);
    if (Now() - told_ < 20) return;
    told_ = Now();
    std::cout << "torture: " << Line() << std::endl;
  }

  int Report() {
    if (const std::string lost = torture_.StepsLost(); !lost.empty()) {
      std::cout << "torture: FAILED: power cuts lose steps\n" << lost;
      failures_.trials["power cuts lose steps"] = {lost.substr(0, lost.find(':'))};
      failures_.count += 1;
    }
    for (const auto& [cause, trials] : failures_.trials) {
      std::cout << "torture: " << trials.size() << " x " << cause << "\n  as " << trials[0] << "\n";
    }
    std::cout << "torture: " << Line() << " (seed " << options_.seed << ")" << std::endl;
    const Figures& figures = torture_.figures();
    if (options_.json) {
      std::cout << "{\"schema\":1,\"seed\":" << options_.seed << ",\"kills\":" << figures.kills
                << ",\"signals\":" << figures.signals << ",\"faults\":" << figures.faults
                << ",\"power_cuts\":" << figures.cuts << ",\"trials\":" << figures.trials
                << ",\"planned\":" << planned_ << ",\"failed\":" << failures_.count
                << ",\"causes\":" << failures_.trials.size()
                << ",\"seconds\":" << static_cast<int64_t>(Now() - begin_) << "}" << std::endl;
    }
    if (failures_.count == 0) fs::remove_all(options_.directory);
    return failures_.count == 0 ? 0 : 1;
  }

  Options options_;
  Torture torture_;
  Failures failures_;
  int64_t planned_ = 0;
  double begin_ = Now(), told_ = Now();
};

}  // namespace
}  // namespace folio::torture

int main(int count, char** words) {
  using namespace folio::torture;
  try {
    const Options options = Parse(count, words);
    return Work(options).Run();
  } catch (const std::exception& error) {
    std::cerr << "torture: " << error.what() << "\n";
    return 2;
  }
}
