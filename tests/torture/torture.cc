#include "tests/torture/torture.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <utility>

#include "tests/faults/disk.h"

namespace folio::torture {
namespace {

namespace fs = std::filesystem;
using faults::Survives;

const std::map<std::string, Survives> kHow = {{"nothing", Survives::kNothing},
                                              {"names", Survives::kNames},
                                              {"zeros", Survives::kNamesZeros},
                                              {"some", Survives::kSome},
                                              {"all", Survives::kAll}};

// The step after which a run says that it continues, 0 if it does not say.
int64_t StepOf(const Ended& ended) {
  constexpr std::string_view kBegins[] = {"resuming at step ", "the run has completed its "};
  for (const std::string_view begin : kBegins) {
    const size_t at = ended.output.find(begin);
    int64_t step = 0;
    if (at == ended.output.npos) continue;
    const char* digits = ended.output.data() + at + begin.size();
    std::from_chars(digits, ended.output.data() + ended.output.size(), step);
    return step;
  }
  return 0;
}

std::string Told(const Ended& ended) {
  std::string tail =
      ended.output.substr(ended.output.size() - std::min<size_t>(ended.output.size(), 600));
  return ended.How() + (tail.empty() ? "" : ":\n" + tail);
}

}  // namespace

Torture::Torture(const std::string& program, const std::string& layer, fs::path directory)
    : program_(fs::absolute(program)),
      layer_(fs::absolute(layer)),
      directory_(std::move(directory)) {
  fs::remove_all(directory_);
  fs::create_directories(directory_);
  directory_ = fs::canonical(directory_);
}

fs::path Torture::WorkerDirectory(int worker) const {
  return directory_ / ("worker" + std::to_string(worker));
}

Ended Torture::Folio(int worker, const Words& words, const std::string& rules,
                     const std::string& journal,
                     const std::vector<std::pair<double, int>>& signals) const {
  const fs::path here = WorkerDirectory(worker);
  Start start{
      .command = {program_}, .directory = here, .output = here / "output", .signals = signals};
  start.command.insert(start.command.end(), words.begin(), words.end());
  if (!rules.empty() || !journal.empty()) {
    fs::remove(here / "counts");
    start.environment = {{"LD_PRELOAD", layer_},
                         {faults::kRootVariable, Root(worker).string()},
                         {faults::kCountsVariable, (here / "counts").string()},
                         {faults::kRulesVariable, rules == "none" ? "" : rules}};
    if (!journal.empty()) start.environment.emplace_back(faults::kJournalVariable, journal);
  }
  return Run(start);
}

faults::Counts Torture::CountsOf(int worker) const {
  faults::Counts counts;
  const std::string bytes = BytesOf(WorkerDirectory(worker) / "counts");
  if (bytes.size() == sizeof(counts)) std::memcpy(&counts, bytes.data(), sizeof(counts));
  return counts;
}

bool Torture::Reaches() const {
  fs::create_directories(Root(0));
  Folio(0, {"data", "stories", "--bytes", "100", "--out", "root/stories"}, "none");
  const faults::Counts counts = CountsOf(0);
  fs::remove_all(WorkerDirectory(0));
  return counts.loaded == faults::kLoaded && counts.calls[faults::kWriteCall] > 0;
}

void Torture::PutBefore(const Prepared& prepared, int worker) const {
  fs::remove_all(Root(worker));
  fs::create_directories(WorkerDirectory(worker));
  fs::copy(directory_ / "before" / prepared.workload.name, Root(worker),
           fs::copy_options::recursive);
}

void Torture::Prepare(const std::vector<std::string>& names) {
  const auto must = [&](const Words& words, const std::string& rules = "",
                        const std::string& journal = "") {
    const Ended ended = Folio(0, words, rules, journal);
    if (ended.status != 0) throw std::runtime_error("folio " + Joined(words) + " " + Told(ended));
    return ended;
  };
  fs::create_directories(directory_ / "input");
  fs::create_directories(directory_ / "before");
  fs::create_directories(directory_ / "journal");
  fs::create_directories(Root(0));
  const std::string text = InputText();
  std::ofstream(directory_ / "input/text.txt") << text;
  std::ofstream(directory_ / "input/other.txt") << text.substr(text.size() / 3);
  for (const Words& words : InputCommands()) must(words);
  for (const Workload& workload : Workloads()) {
    if (!names.empty() && std::ranges::find(names, workload.name) == names.end()) continue;
    Prepared& made = prepared_[workload.name];
    made.workload = workload;
    fs::remove_all(Root(0));
    fs::create_directories(Root(0));
    for (const Words& words : workload.before) must(words);
    fs::copy(Root(0), directory_ / "before" / workload.name, fs::copy_options::recursive);
    made.before = FilesOf(Root(0));
    made.seconds = must(workload.command).seconds;
    made.expected = FilesOf(Root(0));
    PutBefore(made, 0);
    const std::string journal = (directory_ / "journal" / workload.name).string();
    must(workload.command, "none", journal);
    made.counts = CountsOf(0);
    made.journal = faults::ReadJournal(journal);
    for (const faults::Change& change : made.journal) {
      if (change.what == faults::Change::kWrite) made.bytes += change.other.size();
    }
    if (const std::string wrong = Compared(made, 0); !wrong.empty()) {
      throw std::runtime_error(workload.name + " leaves something else the second time: " + wrong);
    }
  }
}

std::vector<std::string> Torture::Faults(const std::string& workload) const {
  const Prepared& prepared = prepared_.at(workload);
  std::vector<std::string> rules;
  const auto add = [&](const std::string& kind, uint64_t n, const char* what) {
    rules.push_back(kind + ":" + std::to_string(n) + what);
  };
  for (uint64_t n = 1; n <= prepared.counts.any; ++n) {
    for (const char* what : {":EIO", ":ENOSPC", "+:ENOSPC", "+:EROFS", ":kill"})
      add("any", n, what);
    if (n % 3 == 0) add("any", n, "+:EDQUOT");
    if (n % 3 == 1)
      rules.push_back("any:" + std::to_string(n) + "-" + std::to_string(n + 2) + ":EDQUOT");
  }
  for (uint64_t n = 1; n <= prepared.counts.calls[faults::kWriteCall]; ++n) {
    for (const char* what : {":short", ":tear"}) add("write", n, what);
  }
  // The process that continues after a kill is hit too: at every fifth call, each time by another
  // fault.
  const char* const second[] = {":EIO", "+:ENOSPC", ":kill", "+:EROFS"};
  for (uint64_t n = 1; n <= prepared.counts.any; n += 5) {
    const uint64_t m = 1 + n * 7919 % (prepared.counts.any / 2 + 1);
    rules.push_back("any:" + std::to_string(n) + ":kill|any:" + std::to_string(m) +
                    second[m % std::size(second)]);
  }
  rules.emplace_back("write:1+:short");
  rules.emplace_back("sync:1+:EIO");
  for (uint64_t part = 0; part < 24; ++part) {
    const std::string room = "space:" + std::to_string(prepared.bytes * part / 24);
    for (const char* failures : {"", ":1", ":6"}) rules.push_back(room + failures);
  }
  for (std::string& rule : rules) rule = workload + "/fault/" + rule;
  return rules;
}

std::vector<std::string> Torture::Cuts(const std::string& workload, int seeds) const {
  const std::vector<faults::Change>& journal = prepared_.at(workload).journal;
  std::vector<std::string> cuts;
  for (size_t n = 1; n <= journal.size(); ++n) {
    // Only after everything that existed is known.
    const auto there = [](const faults::Change& change) {
      return change.what == faults::Change::kThereFile ||
             change.what == faults::Change::kThereDirectory;
    };
    if (n < journal.size() && there(journal[n])) continue;
    const std::string name = workload + "/cut/" + std::to_string(n) + "/";
    for (const char* how : {"nothing", "names", "zeros"}) cuts.push_back(name + how + "/0");
    for (int seed = 1; seed <= seeds; ++seed) cuts.push_back(name + "some/" + std::to_string(seed));
  }
  return cuts;
}

std::string Torture::Try(const std::string& trial, int worker) {
  const Words parts = Parts(trial, '/');
  const auto found = prepared_.find(parts.empty() ? "" : parts[0]);
  if (found == prepared_.end() || parts.size() < 3) return "there is no trial of this name";
  const auto number = [&](size_t part) { return std::stoull(parts.at(part)); };
  figures_.trials += 1;
  const Prepared& prepared = found->second;
  fs::create_directories(WorkerDirectory(worker));
  try {
    if (parts[1] == "kill") return TryKills(prepared, number(2), worker);
    if (parts[1] == "fault") {
      return TryFault(prepared, Parts(parts[2], '|'), worker);
    }
    if (parts[1] == "cut" && parts.size() == 5) {
      return TryCut(prepared, number(2), parts[3], number(4), worker);
    }
  } catch (const std::exception& error) {
    return std::string("the trial itself failed: ") + error.what();
  }
  return "there is no trial of this kind";
}

std::string Torture::Compared(const Prepared& prepared, int worker) const {
  return Difference(prepared.expected, FilesOf(Root(worker)));
}

std::string Torture::WholeOrNot(const Prepared& prepared, int worker) const {
  const Files visible = Visible(FilesOf(Root(worker)));
  const bool no_file =
      std::ranges::all_of(visible, [](const auto& file) { return file.first.ends_with('/'); });
  if (no_file || visible == prepared.before || visible == prepared.expected) return "";
  return "neither what it was nor what it becomes: " + Difference(prepared.expected, visible);
}

std::string Torture::GoOn(const Prepared& prepared, int worker, int64_t* resumed) const {
  const Workload& workload = prepared.workload;
  if (workload.resume.empty()) {
    const Ended again = Folio(worker, workload.again);
    if (again.status != 0) return "the same again " + Told(again);
    return Compared(prepared, worker);
  }
  const Ended went_on = Folio(worker, workload.resume);
  const bool nothing = went_on.status == 3 && went_on.Says("contains no run");
  if (resumed != nullptr) *resumed = nothing ? -1 : StepOf(went_on);
  if (went_on.status != 0 && !nothing) return "going on " + Told(went_on);
  // A replaced run is gone when the new one has begun, which may have no checkpoint yet.
  if (workload.again.empty() && nothing) return "the run that was there is gone";
  // The run that should be replaced may still exist.
  const bool as_before = !workload.again.empty() && FilesOf(Root(worker)) == prepared.before;
  if (nothing || as_before) {
    const Ended begun = Folio(worker, workload.again);
    if (begun.status != 0) return "beginning again " + Told(begun);
  }
  return Compared(prepared, worker);
}

// Returns why a program may not end like this, with these faults; "" if it may.
std::string Torture::WrongEnd(const Ended& ended, const std::string& rules) {
  const bool kills = rules.ends_with("kill") || rules.ends_with("tear");
  if (ended.hung) return "it hung";
  if (ended.status < 0 && !(kills && ended.signal == SIGKILL)) return "it " + Told(ended);
  if (ended.status > 1) return "an odd status: it " + Told(ended);
  if (ended.status != 1) return "";
  if (!ended.Says("error: ")) return "it did not say why it " + Told(ended);
  const bool cause = ended.Says("No space left") || ended.Says("Input/output error") ||
                     ended.Says("quota") || ended.Says("Read-only file system") ||
                     ended.Says("the disk may be full");
  if (!cause) return "it did not say the cause when it " + Told(ended);
  if (ended.Says("filesystem error"))
    return "it said it in the words of C++ when it " + Told(ended);
  return "";
}

std::string Torture::TryFault(const Prepared& prepared, const Words& rules, int worker) {
  const Workload& workload = prepared.workload;
  PutBefore(prepared, worker);
  std::string ends;
  for (size_t i = 0; i < rules.size(); ++i) {
    const bool goes_on = i > 0 && !workload.resume.empty();
    const Words& words = i == 0 ? workload.command : goes_on ? workload.resume : workload.again;
    const Ended ended = Folio(worker, words, rules[i]);
    figures_.faults += static_cast<int64_t>(CountsOf(worker).injected);
    const bool nothing = goes_on && ended.status == 3 && ended.Says("contains no run");
    const std::string wrong = nothing ? "" : WrongEnd(ended, rules[i]);
    if (!wrong.empty()) return wrong;
    ends += (i == 0 ? "it " : ", then ") + ended.How();
    if (workload.resume.empty()) {
      const std::string half = WholeOrNot(prepared, worker);
      if (!half.empty()) return ends + " and left " + half;
    }
  }
  const std::string wrong = GoOn(prepared, worker);
  return wrong.empty() ? "" : ends + "; " + wrong;
}

std::string Torture::TryCut(const Prepared& prepared, size_t changes, const std::string& how,
                            uint64_t seed, int worker) {
  faults::Disk disk(directory_ / "before" / prepared.workload.name);
  for (size_t i = 0; i < std::min(changes, prepared.journal.size()); ++i) {
    disk.Apply(prepared.journal[i]);
  }
  fs::remove_all(Root(worker));
  disk.Cut(Root(worker), kHow.at(how), seed);
  figures_.cuts += 1;
  if (changes >= prepared.journal.size()) {
    // The program had ended: everything that it reported exists.
    const std::string wrong = Difference(prepared.expected, Visible(FilesOf(Root(worker))));
    if (!wrong.empty()) return "after the end of the program: " + wrong;
  }
  if (prepared.workload.resume.empty()) {
    if (const std::string wrong = WholeOrNot(prepared, worker); !wrong.empty()) return wrong;
  }
  int64_t step = 0;
  const std::string wrong = GoOn(prepared, worker, &step);
  if (how == "nothing") {
    const std::lock_guard lock(mutex_);
    steps_[{prepared.workload.name, changes}] = step;
  }
  return wrong;
}

std::string Torture::StepsLost() const {
  const std::lock_guard lock(mutex_);
  std::string lost, workload;
  int64_t most = -1;
  for (const auto& [cut, step] : steps_) {
    if (cut.first != workload) most = -1;
    workload = cut.first;
    // A replaced run has more steps than the new one.
    const bool replaces =
        !prepared_.at(workload).before.empty() && !prepared_.at(workload).workload.again.empty();
    if (step < most && !replaces) {
      lost += cut.first + "/cut/" + std::to_string(cut.second) + "/nothing/0: goes on after step " +
              std::to_string(step) + ", earlier cuts left step " + std::to_string(most) + "\n";
    }
    most = std::max(most, step);
  }
  return lost;
}

std::string Torture::TryKills(const Prepared& prepared, uint64_t seed, int worker) {
  std::mt19937_64 random(seed);
  const Workload& workload = prepared.workload;
  PutBefore(prepared, worker);
  Words words = workload.command;
  const bool replaces = !prepared.before.empty() && !workload.again.empty();
  bool resumable = workload.again.empty();
  constexpr int kMost = 300;
  for (int i = 0; i < kMost; ++i) {
    const double delay = std::uniform_real_distribution(0.0, 1.2 * prepared.seconds)(random);
    constexpr int kSignals[] = {SIGKILL, SIGKILL, SIGKILL, SIGKILL, SIGKILL,
                                SIGTERM, SIGINT,  SIGHUP,  SIGUSR1, SIGUSR1};
    const int signal = kSignals[random() % std::size(kSignals)];
    std::vector<std::pair<double, int>> signals = {{delay, signal}};
    if (signal == SIGUSR1) signals.emplace_back(delay + 0.02, SIGKILL);
    if (random() % 3 == 0) words.insert(words.end(), {"--threads", "2"});
    const Ended ended = Folio(worker, words, "", "", signals);
    if (ended.hung) return "it hung";
    if (ended.signal == SIGKILL) {
      figures_.kills += 1;
    } else if (ended.signal != 0) {
      // Before it handles signals; SIGUSR1 too.
      if (ended.signal != signal) return "it " + Told(ended);
      figures_.signals += 1;
    } else if (ended.status == 128 + signal) {
      figures_.signals += 1;
    } else if (ended.status == 3 && ended.Says("contains no run") && !resumable) {
      words = workload.again;
      continue;
    } else if (ended.status != 0) {
      return "after " + std::to_string(i) + " signals it " + Told(ended);
    } else if (replaces && FilesOf(Root(worker)) == prepared.before) {
      words = workload.again;
      continue;
    } else {
      return Compared(prepared, worker);
    }
    resumable = resumable || (!replaces && ended.Says("resuming at step"));
    words = workload.resume;
  }
  return "it did not come to its end in " + std::to_string(kMost) + " tries";
}

}  // namespace folio::torture
