#include "folio/bench/machine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/machine.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/dtypes.h"
#include "folio/bench/matmul_rate.h"
#include "folio/dist/join.h"
#include "folio/io/json.h"
#include "folio/tensor/dtype.h"
#include "folio/train/precision.h"

namespace folio {
namespace {

// The value of the first line "name : value" in a /proc file, or "".
std::string ProcValue(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != name) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> SimdExtensions() {
  std::string flags = ProcValue("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = ProcValue("/proc/cpuinfo", "Features");  // Arm
  const std::vector<std::string> all = Split(flags, ' ');
  std::vector<std::string> found;
  for (const char* name : {"sse4_2", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16",
                           "amx_bf16", "asimd", "sve", "bf16"}) {
    if (std::ranges::find(all, name) != all.end()) found.emplace_back(name);
  }
  return found;
}

struct Machine {
  std::string cpu = ProcValue("/proc/cpuinfo", "model name");
  std::vector<std::string> simd = SimdExtensions();
  int64_t processors = static_cast<int64_t>(std::thread::hardware_concurrency());
  int64_t threads = Threads();
  MachineMemory memory = ThisMachinesMemory();
  int64_t disk_available = DiskAvailable();
  std::vector<MpiPlugin> mpi = FindMpiPlugins(/*open=*/true);

  static int64_t DiskAvailable() {
    std::error_code problem;
    const auto space = std::filesystem::space(".", problem);
    return problem ? 0 : static_cast<int64_t>(space.available);
  }

  // The things that will make folio slow or fail.
  std::vector<std::string> Warnings() const {
    const auto has = [this](const char* name) {
      return std::ranges::find(simd, name) != simd.end();
    };
    std::vector<std::string> warnings;
    if (!has("avx2") && !has("asimd")) {
      warnings.emplace_back("no AVX2 or Advanced SIMD: everything will be slow");
    }
    if (memory.available > 0 && memory.available < uint64_t{1} << 30) {
      warnings.emplace_back("less than 1 GB of memory is free: only small models will fit");
    }
    if (disk_available < int64_t{1} << 30) {
      warnings.emplace_back("less than 1 GB is free on this disk: checkpoints may not fit");
    }
    return warnings;
  }
};

// How fast matrices of one dtype are multiplied, measured for a moment.
struct Product {
  Dtype dtype;
  std::string unit;
  double flops_per_second;
};

std::vector<Product> MeasureProducts() {
  constexpr double kSeconds = 0.15;
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  std::vector<Product> products;
  for (const Dtype dtype : DtypesNamed("both", *backend)) {
    products.push_back(
        {dtype, backend->ProductUnit(dtype), MeasureMatmulPeak(*backend, dtype, kSeconds)});
  }
  return products;
}

std::string MachineJson(const ReportedProgram& program, const Machine& m,
                        const std::vector<Product>& products) {
  Json rates = Json::array();
  for (const Product& product : products) {
    rates.push_back({{"dtype", DtypeSetting(product.dtype)},
                     {"unit", product.unit},
                     {"flops_per_second", product.flops_per_second}});
  }
  Json mpi = Json::array();
  for (const MpiPlugin& plugin : m.mpi) {
    mpi.push_back({{"name", plugin.mpi}, {"path", plugin.path}, {"problem", plugin.problem}});
  }
  const Json json = {{"schema", 1},
                     {"version", program.version},
                     {"compiler", program.compiler},
                     {"cpu", m.cpu},
                     {"simd", m.simd},
                     {"simd_targets", SimdTargets()},
                     {"products", rates},
                     {"processors", m.processors},
                     {"threads", m.threads},
                     {"memory_total_bytes", m.memory.total},
                     {"memory_available_bytes", m.memory.available},
                     {"disk_available_bytes", m.disk_available},
                     {"mpi", mpi},
                     {"landlock", program.landlock},
                     {"seccomp", program.seccomp},
                     {"warnings", m.Warnings()}};
  return json.dump(2) + "\n";
}

std::string MachineText(const ReportedProgram& program, const Machine& m,
                        const std::vector<Product>& products) {
  std::string text = fmt::format(
      "folio    {} ({})\n"
      "cpu      {}\n"
      "simd     {}\n"
      "threads  {} of {} processors\n"
      "memory   {} free of {}\n"
      "disk     {} free here\n",
      program.version, program.compiler, m.cpu.empty() ? "unknown" : m.cpu,
      m.simd.empty() ? "none known" : Join(m.simd, " "), m.threads, m.processors,
      HumanBytes(static_cast<double>(m.memory.available)),
      HumanBytes(static_cast<double>(m.memory.total)),
      HumanBytes(static_cast<double>(m.disk_available)));
  for (const Product& product : products) {
    text += fmt::format("{}     products of matrices at {:.0f} GFLOP/s ({})\n",
                        DtypeSetting(product.dtype), product.flops_per_second / 1e9, product.unit);
  }
  for (const MpiPlugin& plugin : m.mpi) {
    text +=
        fmt::format("mpi      {}{}\n", plugin.mpi,
                    plugin.problem.empty() ? "" : ", which cannot be opened: " + plugin.problem);
  }
  if (m.mpi.empty()) text += "mpi      none: folio trains on this machine alone\n";
  text += fmt::format("sandbox  {}\n", program.sandbox);
  const std::vector<std::string> warnings = m.Warnings();
  for (const std::string& warning : warnings) text += fmt::format("warning  {}\n", warning);
  if (warnings.empty()) text += "all is well\n";
  return text;
}

}  // namespace

std::string DescribeMachine(const ReportedProgram& program, bool json) {
  const Machine machine;
  const std::vector<Product> products = MeasureProducts();
  return json ? MachineJson(program, machine, products) : MachineText(program, machine, products);
}

}  // namespace folio
