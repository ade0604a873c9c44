#include "folio/ranks/join.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/ranks/transport.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kPluginVariable[] = "FOLIO_MPI";

int Number(const char* text) {
  return text == nullptr ? 0 : std::max(0, std::atoi(text));
}

std::string PluginName(const std::string& mpi) {
  return "folio_mpi_" + mpi + ".so";
}

std::vector<fs::path> PluginDirectories() {
  std::error_code gone;
  const fs::path program = fs::read_symlink("/proc/self/exe", gone).parent_path();
  return {program, program.parent_path() / "lib/folio", FOLIO_PLUGIN_DIR};
}

// The message of dlopen, without the file name at its beginning.
std::string OpeningProblem() {
  const char* said = dlerror();
  return said == nullptr ? "it cannot be loaded" : said;
}

// The plug-in stays open until the process ends.
std::unique_ptr<Transport> Connect(const std::string& path) {
  // MPI looks up its own components among the symbols of the whole process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw UsageError(fmt::format("the ranks cannot communicate: '{}' cannot be loaded", path),
                     OpeningProblem(), "install that MPI, or start folio without mpirun or srun");
  }
  void* symbol = dlsym(library, kConnectName);
  if (symbol == nullptr) {
    throw UsageError(fmt::format("'{}' is not a plug-in of folio", path), OpeningProblem(),
                     fmt::format("unset {}", kPluginVariable));
  }
  std::array<char, 256> why{};
  std::unique_ptr<Transport> transport(
      reinterpret_cast<ConnectFunction>(symbol)(why.data(), why.size()));
  if (transport == nullptr) throw UsageError("the ranks cannot communicate", why.data());
  return transport;
}

std::string PluginFor(const Launcher& launcher) {
  if (const char* named = std::getenv(kPluginVariable); named != nullptr && *named != '\0') {
    return named;
  }
  for (const MpiPlugin& plugin : FindMpiPlugins(/*open=*/false)) {
    if (plugin.mpi == launcher.mpi) return plugin.path;
  }
  throw UsageError(
      fmt::format("{} has started {} ranks, but this build of folio does not support its MPI",
                  launcher.name, launcher.ranks),
      fmt::format("{} is missing beside the program", PluginName(launcher.mpi)),
      fmt::format("build folio with the development files of {} installed, or use the mpirun of an "
                  "MPI that folio doctor lists",
                  launcher.mpi == "mpich" ? "MPICH" : "Open MPI"));
}

std::unique_ptr<Group> Join(GroupOptions options) {
  const Launcher launcher = FindLauncher([](const char* name) { return std::getenv(name); });
  if (launcher.name.empty()) return std::make_unique<Group>();
  if (launcher.mpi.empty()) {
    throw UsageError(fmt::format("{} has started {} tasks that are not connected", launcher.name,
                                 launcher.ranks),
                     "it was started without MPI support: each task would train on its own",
                     "use srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH); srun --mpi=list "
                     "shows what is supported; or use mpirun inside the allocation");
  }
  if (launcher.ranks == 1) return std::make_unique<Group>();
  const std::string plugin = PluginFor(launcher);
  auto group = std::make_unique<Group>([plugin] { return Connect(plugin); }, std::move(options));
  if (launcher.ranks != 0 && group->size() != launcher.ranks) {
    throw UsageError(fmt::format("{} has started {} ranks, but {} sees {}", launcher.name,
                                 launcher.ranks, group->transport(), group->size()),
                     "launcher and MPI do not match: each rank would train on its own",
                     "use the mpirun of that MPI, or another srun --mpi=...");
  }
  return group;
}

// The group of this process.
std::unique_ptr<Group> joined;

}  // namespace

Launcher FindLauncher(const EnvironmentOf& environment) {
  const auto there = [&](const char* name) { return environment(name) != nullptr; };
  const auto number = [&](const char* name) { return Number(environment(name)); };
  const bool slurm = there("SLURM_STEP_ID") && there("SLURM_PROCID");
  const int tasks = std::max(number("SLURM_STEP_NUM_TASKS"), 0);
  if (there("OMPI_COMM_WORLD_SIZE")) {
    return {"mpirun of Open MPI", "openmpi", number("OMPI_COMM_WORLD_SIZE")};
  }
  if (there("PMIX_RANK")) return {slurm ? "srun" : "a launcher with PMIx", "openmpi", tasks};
  if (there("PMI_RANK") || there("PMI_FD")) {
    const int ranks = there("PMI_SIZE") ? number("PMI_SIZE") : tasks;
    return {slurm ? "srun" : "mpirun of MPICH", "mpich", ranks};
  }
  if (slurm && tasks > 1) return {"srun", "", tasks};
  return {};
}

std::vector<MpiPlugin> FindMpiPlugins(bool open) {
  std::vector<MpiPlugin> found;
  const auto add = [&](const std::string& mpi, const std::string& path) {
    MpiPlugin plugin{mpi, path};
    if (open && dlopen(path.c_str(), RTLD_LAZY) == nullptr) plugin.problem = OpeningProblem();
    found.push_back(plugin);
  };
  if (const char* named = std::getenv(kPluginVariable); named != nullptr && *named != '\0') {
    add("named by " + std::string(kPluginVariable), named);
  }
  for (const char* mpi : {"openmpi", "mpich"}) {
    for (const fs::path& directory : PluginDirectories()) {
      const fs::path path = directory / PluginName(mpi);
      std::error_code unknown;
      if (!fs::exists(path, unknown)) continue;
      add(mpi, path.string());
      break;
    }
  }
  return found;
}

Group& JoinGroup(const std::string& version, GroupOptions options) {
  if (joined != nullptr) return *joined;
  joined = Join(std::move(options));
  RequireSame(*joined, "versions of folio", version);
  return *joined;
}

int RankByEnvironment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return Number(rank);
  }
  return 0;
}

Group* JoinedGroup() {
  return joined == nullptr || joined->alone() ? nullptr : joined.get();
}

void LeaveGroup(int status) {
  if (JoinedGroup() == nullptr) return joined.reset();
  try {
    joined->Gather("");     // all ranks have finished their work
  } catch (const Error&) {  // a rank is lost, which was reported
    return joined->Abort(status);
  }
  const auto left = std::make_shared<std::atomic<bool>>(false);
  std::thread([status, left] {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    if (!*left) _exit(status);
  }).detach();
  joined.reset();
  *left = true;
}

int ThreadsOfRank(Group& group) {
  const std::vector<int> processors = ProcessorsOfThisProcess();
  std::string mine = group.HostOf(group.rank());
  for (const int processor : processors) mine += fmt::format(" {}", processor);
  const std::vector<std::string> all = group.Gather(mine);
  const auto sharing = static_cast<int>(std::ranges::count(all, mine));
  return std::max(1, UsableCores(processors) / sharing);
}

}  // namespace folio
