#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/base/signals.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/cli/command_line.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/ranks/join.h"
#include "folio/report/report.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/run_config.h"
#include "folio/serve/sandbox.h"
#include "folio/tensor/dtype.h"
#include "folio/train/config.h"

namespace folio {
namespace {

class ConfigShowCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "config show",
            .summary = "print all settings and their sources",
            .group = "model",
            .details =
                "Sources of settings, from strongest to weakest: flags, --set, FOLIO_* environment "
                "variables, --config FILE (or the nearest folio.toml in the current directory and "
                "those above it, then $XDG_CONFIG_HOME/folio/config.toml), the preset, and "
                "built-in defaults.",
            .examples = {"folio config show --preset char-cpu --origin",
                         "folio config show --preset gpt2 > folio.toml"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Switch("--origin", &origin_, "show the source of each value");
    AddPresetFlag(flags, &preset_);
    flags.Settings(&settings_.layers, {"train", "data", "log"});
  }

  int Run(const Context& context) override {
    settings_.UsePreset(preset_);
    settings_.layers.ReadSources(context.sources);
    settings_.Resolve();
    // A run takes these settings from the model that it starts from.
    const TrainConfig& train = settings_.config.train;
    if (!train.init.empty()) {
      UseInitialModel(settings_, FindModel(train.init, Loading::kMap, train.init_adapter));
    }
    Console& console = context.console;
    console.Result(console.json() ? AsJson()
                   : origin_      ? WithOrigins(console.out())
                                  : settings_.layers.ToToml());
    return 0;
  }

 private:
  std::string AsJson() const {
    Json all = Json::object();
    for (const Field& field : settings_.layers.fields()) {
      const std::string text = FieldText(field);
      all[field.key] = {{"value", IsText(field) ? Json(text) : ParseJson(text, field.key)},
                        {"origin", settings_.layers.origin(field.key)}};
    }
    return Json{{"schema", 1}, {"settings", all}}.dump(2) + "\n";
  }

  std::string WithOrigins(const Terminal& terminal) const {
    size_t left = 0;
    for (const Field& field : settings_.layers.fields()) {
      left = std::max(left, field.key.size() + 3 + FieldText(field).size());
    }
    std::string text;
    for (const Field& field : settings_.layers.fields()) {
      const std::string setting = fmt::format("{} = {}", field.key, FieldText(field));
      const bool built_in = settings_.layers.layer(field.key) == Layer::kBuiltIn;
      const std::string& origin = settings_.layers.origin(field.key);
      text += fmt::format("{:<{}}  {}\n", setting, left,
                          built_in ? Styled(terminal, Style::kDim, origin) : origin);
    }
    return text;
  }

  bool origin_ = false;
  std::string preset_;
  RunSettings settings_;
};

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

// A description of this machine, with a brief measurement of matrix products in each dtype.
Report MachineReport() {
  constexpr double kSeconds = 0.15;
  constexpr uint64_t kGigabyte = uint64_t{1} << 30;
  const std::string cpu = ProcValue("/proc/cpuinfo", "model name");
  const std::vector<std::string> simd = SimdExtensions();
  const MachineMemory memory = ThisMachinesMemory();
  std::error_code problem;
  const std::filesystem::space_info space = std::filesystem::space(".", problem);
  const uint64_t disk = problem ? 0 : space.available;
  const Sandbox sandbox = FindSandbox();
  const unsigned processors = std::thread::hardware_concurrency();
  std::vector<Cell> facts = {
      {"version", "folio", {fmt::format("{} ({})", Version(), Compiler()), Version()}},
      {"compiler", "", Compiler()},
      {"cpu", "cpu", {cpu.empty() ? "unknown" : cpu, cpu}},
      {"simd", "simd", {simd.empty() ? "unknown" : Join(simd, " "), simd}},
      {"simd_targets", "", Json(SimdTargets())},
      {"threads",
       "threads",
       {fmt::format("{} of {} processors", Threads(), processors), Threads()}},
      {"processors", "", processors},
      {"memory_available_bytes",
       "memory",
       {fmt::format("{} free of {}", HumanBytes(memory.available), HumanBytes(memory.total)),
        memory.available}},
      {"memory_total_bytes", "", memory.total},
      {"disk_available_bytes", "disk", Value::Bytes(disk).In(" free here")}};
  Json products = Json::array(), mpi = Json::array();
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const Dtype dtype : DtypesNamed("both", *backend)) {
    const std::string name(DtypeSetting(dtype)), unit = backend->ProductUnit(dtype);
    const double rate = MeasureMatmulPeak(*backend, dtype, kSeconds);
    facts.push_back(
        {"", name, fmt::format("matrix products at {:.0f} GFLOP/s ({})", rate / 1e9, unit)});
    products.push_back({{"dtype", name}, {"unit", unit}, {"flops_per_second", rate}});
  }
  for (const MpiPlugin& plugin : FindMpiPlugins(/*open=*/true)) {
    facts.push_back({"", "mpi",
                     plugin.problem.empty()
                         ? plugin.mpi
                         : plugin.mpi + ", which cannot be loaded: " + plugin.problem});
    mpi.push_back({{"name", plugin.mpi}, {"path", plugin.path}, {"problem", plugin.problem}});
  }
  if (mpi.empty()) facts.push_back({"", "mpi", "none: training uses this machine only"});
  facts.push_back(
      {"gpu", "gpu", {"not used: folio runs on the CPU, there is no GPU support yet", Json()}});
  facts.push_back({"landlock", "sandbox", {DescribeSandbox(sandbox), sandbox.landlock}});
  facts.push_back({"seccomp", "", sandbox.seccomp});
  // Causes for folio to be slow or fail.
  Json warnings = Json::array();
  const auto warn = [&](bool bad, const char* warning) {
    if (!bad) return;
    facts.push_back({"", "warning", warning});
    warnings.push_back(warning);
  };
  warn(std::ranges::count(simd, "avx2") + std::ranges::count(simd, "asimd") == 0,
       "no AVX2 or Advanced SIMD: computation will be slow");
  warn(memory.available > 0 && memory.available < kGigabyte,
       "less than 1 GB of memory is free: only small models will fit");
  warn(disk < kGigabyte, "less than 1 GB is free on this disk: checkpoints may not fit");
  return {.parts = {{.facts = facts}, {.text = warnings.empty() ? "no problems found" : ""}},
          .data = {{"products", products}, {"mpi", mpi}, {"warnings", warnings}}};
}

class DoctorCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "doctor",
            .summary = "describe this machine, and report problems",
            .group = "set-up"};
  }

  void AddFlags(Flags&) override {}

  int Run(const Context& context) override {
    ShowReport(context.console, MachineReport());
    return 0;
  }
};

class CompletionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "completion",
            .summary = "print a script that completes folio's commands in a shell",
            .group = "set-up",
            .details = "Source the script where the shell starts.",
            .examples = {"source <(folio completion bash)      # in ~/.bashrc",
                         "source <(folio completion zsh)       # in ~/.zshrc",
                         "folio completion fish | source       # in ~/.config/fish/config.fish"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"SHELL", &shell_, "the shell"}.Choices({"bash", "zsh", "fish"}),
                     {.required = true});
  }

  int Run(const Context& context) override {
    context.console.Result(CompletionScript(shell_));
    return 0;
  }

 private:
  std::string shell_;
};

// Called by the completion scripts: prints lines of a candidate, a tab and its description.
class CompleteCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "__complete", .summary = "list what may come next", .group = ""};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("WORD", &words_, "the command line after folio, up to the cursor");
  }

  int Run(const Context& context) override {
    std::string text;
    for (const Completion& candidate : Complete(context.command_line, words_)) {
      text += candidate.word + (candidate.help.empty() ? "" : "\t" + candidate.help) + "\n";
    }
    context.console.Result(text);
    return 0;
  }

 private:
  std::vector<std::string> words_;
};

class HelpCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "help",
            .summary = "explain a command",
            .group = "set-up",
            .examples = {"folio help data prepare"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("COMMAND", &words_, "the command to explain; all of them if left out");
    flags.Value(Field{"man", &man_, "write a page of man for each command there instead"},
                {.placeholder = "DIR"});
  }

  int Run(const Context& context) override {
    if (!man_.empty()) {
      CatchSignals();  // until the pages are complete
      CreateDirectories(man_);
      for (const ManPage& page : ManPages(context.command_line, Version())) {
        WriteFileAtomically(std::filesystem::path(man_) / page.file, page.text);
      }
      return 0;
    }
    context.console.Result(
        Help(context.command_line, Join(words_, " "), /*full=*/true, context.console.out()));
    return 0;
  }

 private:
  std::string man_;
  std::vector<std::string> words_;
};

class VersionCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "version", .summary = "print the version", .group = "set-up"};
  }
  void AddFlags(Flags&) override {}
  int Run(const Context& context) override {
    if (context.console.json()) {
      const Json json = {{"build_type", BuildType()},
                         {"compiler", Compiler()},
                         {"schema", 1},
                         {"version", Version()}};
      context.console.Result(json.dump() + "\n");
    } else {
      context.console.Result(fmt::format("folio {}\n", Version()));
    }
    return 0;
  }
};

}  // namespace

CommandList ConfigCommands() {
  return CommandsOf<ConfigShowCommand>();
}

CommandList SetUpCommands() {
  return CommandsOf<DoctorCommand, CompletionCommand, HelpCommand, VersionCommand,
                    CompleteCommand>();
}

}  // namespace folio
