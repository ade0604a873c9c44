#pragma once

#include <functional>
#include <string>
#include <vector>

#include "folio/ranks/group.h"

namespace folio {

// The program that started this process beside others, by what is in its environment.
struct Launcher {
  std::string name;  // "mpirun of Open MPI", "srun"; "" for none
  std::string mpi;   // "openmpi" or "mpich": which plug-in it needs; "" where it offers none
  int ranks = 1;     // as far as it says; 0 where it does not
};
using EnvironmentOf = std::function<const char*(const char* name)>;
Launcher FindLauncher(const EnvironmentOf& environment);

// A library that brings a kind of MPI into the program.
struct MpiPlugin {
  std::string mpi;           // "openmpi", "mpich"
  std::string path;          // of the file
  std::string problem = {};  // why it cannot be opened; "" if it can
};
// Finds the plug-ins beside the program or below its lib/folio, and the one that FOLIO_MPI names.
// With `open` they are tried.
std::vector<MpiPlugin> FindMpiPlugins(bool open);

// The group of the processes that mpirun or srun has started, or this one alone, which lives until
// LeaveGroup; joined by the first call, before the process starts others. `version` is the
// program's. Throws a kUsage Error where ranks were started that cannot talk to each other (each
// would train alone, and write to the same place) or that are of different versions.
Group& JoinGroup(const std::string& version, GroupOptions options = {});
// The group that was joined; null for none, or one rank alone.
Group* JoinedGroup();
// The rank that the environment says that this is; 0 where it says nothing.
int RankByEnvironment();
// Waits for the other ranks and leaves them; `status` is what the process is about to exit with,
// and exits with here where the MPI does not let it go (MPICH 4.0 over UCX and TCP hangs in
// MPI_Finalize).
void LeaveGroup(int status);

// The number of threads that this rank should compute with: the cores that it may use, shared with
// the ranks of this machine that may use the same.
int ThreadsOfRank(Group& group);

}  // namespace folio
