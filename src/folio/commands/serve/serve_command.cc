#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/commands/serve/program_page.h"
#include "folio/formats/fetched_models.h"
#include "folio/formats/model_formats.h"
#include "folio/infer/default_sampling.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/model_files/base_model.h"
#include "folio/serve/sandbox.h"
#include "folio/serve/service.h"
#include "folio/text/published_encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Adds a directory, and the targets of links in it: caches store models that way.
void AddDirectory(const fs::path& dir, std::vector<fs::path>& files) {
  files.push_back(dir);
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    if (it->is_symlink(ignored) && it->is_regular_file(ignored)) files.push_back(it->path());
  }
}

// Adds the files that are read for one path or name.
void AddModel(const std::string& model, std::vector<fs::path>& files) {
  const fs::path fetched = FetchedDir(model);
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) {
    AddDirectory(model, files);
    AddDirectory(FindModelDir(model), files);
  } else if (fs::exists(model, ignored)) {
    const fs::path dir = fs::absolute(model).parent_path();
    AddDirectory(dir, files);
    files.push_back(dir.parent_path() / "data");  // where nanoGPT keeps the tokenizers of its data
  } else if (!fetched.empty()) {
    AddDirectory(fetched, files);
  }
}

// The files and directories that are read to open a model, an adapter or a tokenizer: for a
// directory everything below it and the targets of its links, for a file everything beside it, for
// a name what was fetched; and the model that an adapter names. A checkpoint that a crash left
// under a temporary name is restored.
std::vector<fs::path> FilesToOpen(const std::string& model) {
  std::vector<fs::path> files = {FetchedHome("tokenizers")};  // for models without a tokenizer
  AddModel(model, files);
  const fs::path found = FindModelDir(model);
  if (Exists(found / kBaseModelFile)) AddModel(LoadBaseModel(found).path, files);
  return files;
}

// Returns a model's name in requests, and its path: from "NAME=PATH", or with the name of its run,
// directory or file.
std::pair<std::string, std::string> NameAndPath(const std::string& given) {
  const size_t equals = given.find('=');
  if (equals != std::string::npos && !fs::exists(given)) {
    return {given.substr(0, equals), given.substr(equals + 1)};
  }
  fs::path path = fs::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const bool of_run = path.filename() == "best" || path.filename() == "last";
  const fs::path named = of_run ? path.parent_path() : path;
  return {fs::is_directory(path) ? named.filename().string() : named.stem().string(), given};
}

// Adds the directories of a file's name and of its link's target.
void AddDirectoriesOf(const std::string& file, std::vector<fs::path>& directories) {
  directories.push_back(fs::absolute(file).parent_path());
  directories.push_back(fs::weakly_canonical(file).parent_path());
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

class ServeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "serve",
        .summary = "serve models over HTTP with OpenAI's interface, and show a web page",
        .group = "model",
        .details =
            "Prints its address and answers requests until it is interrupted: completions, chat "
            "completions, embeddings, tokens. Clients of OpenAI's interface work with the address "
            "and \"/v1\" as the base URL. A request names its model by the NAME of --model, or by "
            "the name of its run, directory or file; a single model answers whatever the name. "
            "Several texts are written at once (--slots); an answer does not depend on other "
            "requests. Sampling options that a request does not set are those of folio generate "
            "and folio chat.\n\nThe address itself is a web page: write with any of the models, "
            "chat with those trained on conversations, look inside (a model that is not kept as "
            "float32 is copied for that on first use), watch the runs of --runs, and write with "
            "their checkpoints.\n\nOnly this machine can connect, unless --host is given; then "
            "every "
            "request needs a key from --api-key-file, which has a line \"KEY\" or \"NAME:KEY\" for "
            "each key; KEY may be \"sha256:\" and the SHA-256 of the key. Behind a proxy, "
            "--trusted-proxy names the proxy whose X-Forwarded-For is believed. Requests are "
            "logged on standard error, or with --access-log as JSON lines.\n\nSIGHUP reloads the "
            "keys and reopens the log. SIGTERM and Ctrl-C complete the requests in progress and "
            "then exit; a second one exits at once.",
        .examples = {"folio serve runs/demo", "folio serve small=runs/demo models/gpt2 --port 0",
                     "folio serve --model gpt2 --model tuned=gpt2 --adapter tuned=my-adapter",
                     "folio serve --runs runs",
                     "folio serve --model runs/demo --host 0.0.0.0 --api-key-file keys.txt",
                     "folio serve --model runs/demo --trusted-proxy 127.0.0.1 --allow-host "
                     "models.example --access-log access.jsonl"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positionals("MODEL", &more_models_, "models to serve, like --model");
    flags.List("--model", &models_, "a model to serve; may be repeated",
               {.placeholder = "[NAME=]RUN|DIR|FILE"});
    flags.List("--adapter", &adapters_,
               "a LoRA adapter for the model, or for the model of that name",
               {.placeholder = "[NAME=]DIR"});
    flags.List("--runs", &runs_, "a directory of runs to show; default: ./runs if it exists",
               {.placeholder = "DIR"});
    flags.Value(Field{"host", &host_, "the address to listen on"});
    flags.Value(Field{"port", &port_, "the port; 0 chooses a free one", 0, 65535});
    flags.Value(Field{"api-key-file", &key_file_, "file with the keys, one [NAME:]KEY per line"},
                {.placeholder = "FILE"});
    flags.List("--allow-host", &hosts_, "an additional host name of the service",
               {.placeholder = "NAME"});
    flags.List("--trusted-proxy", &proxies_,
               "a proxy whose X-Forwarded-For names the client: the last address in it that is not "
               "such a proxy",
               {.placeholder = "ADDRESS[/BITS]"});
    flags.Value(Field{"access-log", &log_file_,
                      "append a JSON line for each request to this file; - for standard output"},
                {.placeholder = "FILE|-"});
    flags.List("--cors", &origins_, "allow requests from web pages of this origin",
               {.placeholder = "ORIGIN"});
    flags.Value(Field{"slots", &slots_, "number of texts that are written at once", 1, 1024});
    flags.Value(Field{"queue", &queue_,
                      "number of texts that may wait; further requests get status 429", 0, 1e6});
    flags.Value(Field{"timeout", &timeout_, "maximum time for an answer"}, {.placeholder = "TIME"});
    flags.Value(Field{"connections", &connections_, "maximum number of connections", 1, 1e5});
    flags.Value(Field{
        "request-memory", &request_memory_,
        "memory for all requests together, in MB; 0: an eighth of the free memory, at most 1 GiB",
        0, 1e7});
    flags.Switch("--strict-model-names", &strict_model_names_,
                 "with one model, too, refuse requests that name another (404); else it answers, "
                 "and the header X-Folio-Model says so");
    model_.AddLoad(flags);
    model_.AddDecoding(flags);
    model_.AddCache(flags);
    model_.AddCompute(flags);
    flags.Switch("--no-sandbox", &no_sandbox_,
                 "run without the sandbox (folio doctor describes it)");
  }

  int Run(const Context& context) override {
    models_.insert(models_.end(), more_models_.begin(), more_models_.end());
    ReturnFreedMemory();
    CatchSignals();
    CatchReload();
    model_.compute.Use();
    Console& console = context.console;
    ServiceOptions options = Options();
    if (models_.empty() && options.page.runs.empty()) {
      throw UsageError("nothing to serve", "no model is given, and there is no directory of runs",
                       "give a model, or --runs DIR to show only runs");
    }
    std::optional<AccessLog> log;
    if (!log_file_.empty()) log.emplace(log_file_);
    Service service(std::move(options), [&](const AccessLogEntry& request) {
      if (log) return log->Write(request);
      console.Note(AccessLine(request));
    });
    std::map<std::string, std::string> adapters = Adapters();
    BackgroundServer serving(service, host_, static_cast<int>(port_),
                             {.connections = static_cast<int>(connections_), .proxies = Proxies()});
    if (!no_sandbox_) Confine(console);
    Json names = Json::array();
    model_.on_stop = OnStop::kWaits;
    for (const std::string& given : models_) {
      const auto [name, path] = NameAndPath(given);
      OpenedModel model = model_.Open(console, path, adapters[name]);
      if (model.sampling.any()) {
        console.Note(fmt::format("{}: {}", name,
                                 DescribeSampling(model, DefaultSampling(model, Writing::kText))));
      }
      service.Add(name, std::move(model));
      names.push_back(name);
    }
    serving.Begin();
    if (console.json()) {
      console.Result(
          Json{{"schema", 1}, {"url", serving.url()}, {"port", serving.port()}, {"models", names}}
              .dump() +
          "\n");
    } else {
      console.Result(serving.url() + "\n");
    }
    while (StopRequested() == 0) {
      if (TakeReloadRequest()) {
        if (log) log->Reopen();
        ReloadKeys(console, service);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (const int left = serving.connections(); left > 0) {
      console.Note(
          fmt::format("not accepting new requests; waiting for {} connections to finish (signal "
                      "again to exit at once)",
                      left));
    }
    serving.Stop();
    return 0;
  }

 private:
  ServiceOptions Options() const {
    ServiceOptions options{.scheduler = {.slots = slots_, .queue = queue_, .cache = model_.cache()},
                           .limits = {.seconds = ParseSeconds(timeout_, "--timeout")},
                           .access = {.hosts = hosts_, .origins = origins_, .proxies = Proxies()},
                           .page = ProgramPage(RunDirectories()),
                           .strict_model_names = strict_model_names_};
    if (request_memory_ > 0) {
      options.limits.memory = std::make_shared<MemoryBudget>(request_memory_ * 1000 * 1000);
    }
    if (!key_file_.empty()) {
      options.access.keys = ReadKeys(key_file_);
      if (options.access.keys.empty()) {
        throw InputError(fmt::format("{}: no keys", key_file_), "expected one key per line",
                         "add a key, for example from: openssl rand -hex 32");
      }
    }
    if (options.access.keys.empty() && !IsLoopback(host_)) {
      throw UsageError(fmt::format("other machines can connect to {}", host_),
                       "the service has no API keys", "add --api-key-file FILE, or remove --host");
    }
    return options;
  }

  // Call before other threads start, and before untrusted files are read.
  void Confine(Console& console) const {
    SandboxRules rules{.readable = RunDirectories()};
    for (const auto* list : {&models_, &adapters_}) {
      for (const std::string& given : *list) {
        for (auto& path : FilesToOpen(NameAndPath(given).second)) {
          rules.readable.push_back(std::move(path));
        }
      }
    }
    for (const std::string& file : {model_.tokenizer, model_.chat_template}) {
      for (auto& path : FilesToOpen(file)) rules.readable.push_back(std::move(path));
    }
    // SIGHUP opens the files that then have these names.
    if (!key_file_.empty()) AddDirectoriesOf(key_file_, rules.readable);
    if (!log_file_.empty() && log_file_ != "-") AddDirectoriesOf(log_file_, rules.writable);
    const Sandbox sandbox = EnterSandbox(rules);
    if (sandbox.landlock == 0 || !sandbox.seccomp) {
      console.Note(fmt::format(
          "the sandbox of this system has {}: an attacker who takes over the service {}",
          DescribeSandbox(sandbox),
          sandbox.seccomp ? "has its user's access to files" : "has all rights of its user"));
    }
    Log(LogLevel::kDebug, fmt::format("sandbox: {}", DescribeSandbox(sandbox)));
  }

  std::vector<AddressBlock> Proxies() const {
    std::vector<AddressBlock> proxies;
    for (const std::string& given : proxies_) proxies.emplace_back(given, "--trusted-proxy");
    return proxies;
  }

  // An invalid file leaves the keys unchanged. One without keys removes all of them.
  void ReloadKeys(Console& console, Service& service) const {
    if (key_file_.empty()) return;
    try {
      AccessKeys keys = ReadKeys(key_file_);
      const size_t count = keys.size();
      service.SetKeys(std::move(keys));
      if (count == 0) {
        LogWarning(
            fmt::format("{}: reloaded, no keys: requests that need a key are refused until the "
                        "file has one and is reloaded (SIGHUP)",
                        key_file_));
      } else {
        console.Note(fmt::format("{}: reloaded, {} keys", key_file_, count));
      }
    } catch (const Error& error) {
      LogWarning(fmt::format("keys not reloaded: {}: {}", error.what(), error.cause()));
    }
  }

  std::vector<fs::path> RunDirectories() const {
    constexpr char kDefault[] = "runs";
    std::error_code ignored;
    if (runs_.empty() && fs::is_directory(kDefault, ignored)) return {kDefault};
    for (const std::string& dir : runs_) RequireDirectory(dir, "the directory of runs");
    return {runs_.begin(), runs_.end()};
  }

  // Adapters by the names of their models.
  std::map<std::string, std::string> Adapters() const {
    std::vector<std::string> names;
    for (const std::string& given : models_) names.push_back(NameAndPath(given).first);
    std::map<std::string, std::string> adapters;
    for (const std::string& given : adapters_) {
      const size_t equals = given.find('=');
      const bool named = equals != std::string::npos && !fs::exists(given);
      if (!named && models_.size() != 1) {
        throw UsageError(fmt::format("--adapter {}: which model is it for?", given),
                         fmt::format("there are {} models", models_.size()),
                         "put the name of its model before it: --adapter NAME=DIR");
      }
      const std::string name = named ? given.substr(0, equals) : names.front();
      if (!std::ranges::count(names, name)) {
        throw UsageError(fmt::format("--adapter {}: there is no model '{}'", given, name),
                         fmt::format("the models are {}", Join(names, ", ")));
      }
      if (!adapters.emplace(name, named ? given.substr(equals + 1) : given).second) {
        throw UsageError(fmt::format("--adapter {}: '{}' already has an adapter", given, name),
                         "a model can have one adapter", "serve the model twice, with two names");
      }
    }
    return adapters;
  }

  std::vector<std::string> models_, more_models_, adapters_, runs_, hosts_, proxies_, origins_;
  std::string host_ = "127.0.0.1", key_file_, log_file_, timeout_ = "10m";
  int64_t port_ = 8080, slots_ = 8, queue_ = 64, connections_ = 256, request_memory_ = 0;
  ModelFlags model_;
  bool no_sandbox_ = false, strict_model_names_ = false;
};

}  // namespace

CommandList ServeCommands() {
  return CommandsOf<ServeCommand>();
}

}  // namespace folio
