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
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/bench/operations.h"
#include "folio/cli/command_line.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/fetch_command.h"
#include "folio/commands/model_flags.h"
#include "folio/dist/join.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/report/report.h"
#include "folio/run/fetch_model.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/run_config.h"
#include "folio/serve/sandbox.h"
#include "folio/tensor/dtype.h"
#include "folio/train/config.h"

namespace folio {
namespace {

class FetchCommand final : public FetchPublishedCommand {
 public:
  FetchCommand() : FetchPublishedCommand(PublishedModelSets(), "folio generate --model") {}

  CommandInfo info() const override {
    return {.name = "fetch",
            .summary = "download a published model",
            .group = "model",
            .details =
                "Puts OpenAI's GPT-2, with its tokenizer, where --model NAME looks for it: in\n"
                "$FOLIO_HOME/models, else ~/.cache/folio/models. A download that was cut goes on\n"
                "where it was; a file is kept only if it is, byte for byte, the published one.",
            .examples = {"folio fetch gpt2", "folio fetch --list",
                         "folio fetch gpt2-medium --from ~/Downloads/gpt2-medium"}};
  }
};

class ConfigShowCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "config show",
        .summary = "print all settings, and where each comes from",
        .group = "model",
        .details =
            "Settings come, strongest first, from flags, --set, FOLIO_* environment variables,\n"
            "--config FILE (else the nearest folio.toml above the current directory, then\n"
            "$XDG_CONFIG_HOME/folio/config.toml), the preset, and folio itself.",
        .examples = {"folio config show --preset char-cpu --origin",
                     "folio config show --preset gpt2 > folio.toml"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Switch("--origin", &origin_, "say where each value comes from");
    AddPresetFlag(flags, &preset_);
    flags.Settings(&settings_.layers, {"train", "data", "log"});
  }

  int Run(const Context& context) override {
    settings_.UsePreset(preset_);
    settings_.layers.ReadSources(context.sources);
    settings_.Resolve();
    // A run takes these over from the model that it begins with.
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
      all[field.key] = {{"value", Value(field)}, {"origin", settings_.layers.origin(field.key)}};
    }
    return Json{{"schema", 1}, {"settings", all}}.dump(2) + "\n";
  }

  static Json Value(const Field& field) {
    const std::string text = FieldText(field);
    if (std::holds_alternative<std::string*>(field.value)) return text;
    return ParseJson(text, field.key);
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

Report MachineReport() {
  const Machine m;
  const Sandbox sandbox = FindSandbox();
  std::vector<Cell> facts = {
      {"version", "folio", {fmt::format("{} ({})", Version(), Compiler()), Version()}},
      {"compiler", "", Compiler()},
      {"cpu", "cpu", {m.cpu.empty() ? "unknown" : m.cpu, m.cpu}},
      {"simd", "simd", {m.simd.empty() ? "none known" : Join(m.simd, " "), m.simd}},
      {"simd_targets", "", Json(SimdTargets())},
      {"threads",
       "threads",
       {fmt::format("{} of {} processors", m.threads, m.processors), m.threads}},
      {"processors", "", m.processors},
      {"memory_available_bytes",
       "memory",
       {fmt::format("{} free of {}", HumanBytes(static_cast<double>(m.memory.available)),
                    HumanBytes(static_cast<double>(m.memory.total))),
        m.memory.available}},
      {"memory_total_bytes", "", m.memory.total},
      {"disk_available_bytes", "disk", Value::Bytes(m.disk_available).In(" free here")}};
  Json products = Json::array(), mpi = Json::array();
  for (const Product& product : MeasureProducts()) {
    const std::string dtype(DtypeSetting(product.dtype));
    facts.push_back({"", dtype,
                     fmt::format("products of matrices at {:.0f} GFLOP/s ({})",
                                 product.flops_per_second / 1e9, product.unit)});
    products.push_back(
        {{"dtype", dtype}, {"unit", product.unit}, {"flops_per_second", product.flops_per_second}});
  }
  for (const MpiPlugin& plugin : m.mpi) {
    facts.push_back({"", "mpi",
                     plugin.problem.empty()
                         ? plugin.mpi
                         : plugin.mpi + ", which cannot be opened: " + plugin.problem});
    mpi.push_back({{"name", plugin.mpi}, {"path", plugin.path}, {"problem", plugin.problem}});
  }
  if (m.mpi.empty()) facts.push_back({"", "mpi", "none: folio trains on this machine alone"});
  facts.push_back({"landlock", "sandbox", {DescribeSandbox(sandbox), sandbox.landlock}});
  facts.push_back({"seccomp", "", sandbox.seccomp});
  const std::vector<std::string> warnings = m.Warnings();
  for (const std::string& warning : warnings) facts.push_back({"", "warning", warning});
  return {.parts = {{.facts = facts}, {.text = warnings.empty() ? "all is well" : ""}},
          .data = {{"products", products}, {"mpi", mpi}, {"warnings", warnings}}};
}

class DoctorCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "doctor",
            .summary = "show what this machine offers, and what will be a problem",
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

// The scripts call this command: it prints a candidate in each line, a tab, and what it is.
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
  }

  int Run(const Context& context) override {
    context.console.Result(
        Help(context.command_line, Join(words_, " "), /*full=*/true, context.console.out()));
    return 0;
  }

 private:
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

CommandList FetchCommands() {
  return CommandsOf<FetchCommand>();
}

CommandList ConfigCommands() {
  return CommandsOf<ConfigShowCommand>();
}

CommandList SetUpCommands() {
  return CommandsOf<DoctorCommand, CompletionCommand, HelpCommand, VersionCommand,
                    CompleteCommand>();
}

}  // namespace folio
