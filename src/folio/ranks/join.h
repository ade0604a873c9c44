#pragma once

#include <functional>
#include <string>
#include <vector>

#include "folio/ranks/group.h"

namespace folio {

// The program that started this process as one of several, according to the environment.
struct Launcher {
  std::string name;  // "mpirun of Open MPI", "srun"; "" for none
  std::string mpi;   // "openmpi" or "mpich": the plug-in that it needs; "" if it offers none
  int ranks = 1;     // according to the launcher; 0 if it does not say
};
using EnvironmentOf = std::function<const char*(const char* name)>;
Launcher FindLauncher(const EnvironmentOf& environment);

// A library that adds an implementation of MPI to the program.
struct MpiPlugin {
  std::string mpi;           // "openmpi", "mpich"
  std::string path;          // of the file
  std::string problem = {};  // why it cannot be opened; "" if it can
};
// Finds the plug-ins beside the program or below its lib/folio, and the one that FOLIO_MPI names.
// With `open` they are opened for a test.
std::vector<MpiPlugin> FindMpiPlugins(bool open);

// The group of the processes that mpirun or srun started, or of this one alone, until LeaveGroup;
// joined by the first call, before the process forks. `version` is the program's. Throws a kUsage
// Error if ranks were started that cannot communicate (each would train alone, and write to the
// same place) or that have different versions.
Group& JoinGroup(const std::string& version, GroupOptions options = {});
// The joined group; null if there is none, or only one rank.
Group* JoinedGroup();
// This process's rank according to the environment; 0 if it does not say.
int RankByEnvironment();
// Waits for the other ranks and leaves the group; `status` is the process's exit status. Exits with
// it if MPI does not return (MPICH 4.0 over UCX and TCP hangs in MPI_Finalize).
void LeaveGroup(int status);

// The number of threads that this rank should compute with: its usable cores, shared with the ranks
// on this machine that may use the same ones.
int ThreadsOfRank(Group& group);

}  // namespace folio
