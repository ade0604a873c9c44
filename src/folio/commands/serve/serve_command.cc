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
#include "folio/base/strings.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/commands/serve/program_page.h"
#include "folio/formats/fetched_models.h"
#include "folio/formats/model_formats.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/serve/sandbox.h"
#include "folio/serve/service.h"
#include "folio/term/signals.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A directory, and the files that links in it lead to: caches keep models so.
void AddDirectory(const fs::path& dir, std::vector<fs::path>& files) {
  files.push_back(dir);
  std::error_code failed;
  for (fs::directory_iterator it(dir, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    if (it->is_symlink(ignored) && it->is_regular_file(ignored)) files.push_back(it->path());
  }
}

// Where the files lie that are read to open a model, an adapter or a tokenizer: of a directory all
// that is beneath it, with what links in it lead to, of a file all that is beside it, of a name
// what was fetched. A checkpoint that a crash left aside is put back in its place.
std::vector<fs::path> FilesToOpen(const std::string& model) {
  std::vector<fs::path> files = {FetchedHome("tokenizers")};  // of models that came without one
  const fs::path fetched = FetchedDir(model);
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) {
    AddDirectory(model, files);
    AddDirectory(FindModelDir(model), files);
  } else if (fs::exists(model, ignored)) {
    const fs::path dir = fs::absolute(model).parent_path();
    AddDirectory(dir, files);
    files.push_back(dir.parent_path() / "data");  // where nanoGPT keeps the tokenizers of its files
  } else if (!fetched.empty()) {
    AddDirectory(fetched, files);
  }
  return files;
}

// Returns the name by which requests call a model, and its path: of "NAME=PATH", or with the name
// of its run, directory or file.
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

// Adds the directories of a file's name and of what it is a link to.
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
        .summary = "answer requests over HTTP, as OpenAI's interface has them, and show a page",
        .group = "model",
        .details =
            "Prints its address and answers until it is interrupted: completions, answers in\n"
            "conversations, embeddings, tokens. Clients of OpenAI's interface work as they are,\n"
            "with the address and \"/v1\" as their base. A request names its model by --model's\n"
            "NAME, or the name of its run, directory or file. Several texts are written at once\n"
            "(--slots); what a request gets does not depend on the others.\n"
            "\n"
            "At the address itself is a page that writes with any of the models, talks with those\n"
            "that were taught to answer, looks inside of them (which needs float32:\n"
            "--dtype fp32), and shows the runs of --runs as they train.\n"
            "\n"
            "Only this machine reaches it, unless --host says otherwise; then every request\n"
            "needs a key of --api-key-file: a line \"KEY\" or \"NAME:KEY\" for each, where KEY "
            "may\n"
            "be \"sha256:\" and the SHA-256 of the key. Behind a proxy --trusted-proxy says whose\n"
            "X-Forwarded-For to believe. Requests are told on standard error, or by --access-log\n"
            "as lines of JSON.\n"
            "\n"
            "SIGHUP reads the keys and opens the log anew. SIGTERM and Ctrl-C let what was begun\n"
            "end, a second one does not.",
        .examples = {"folio serve --model runs/demo",
                     "folio serve --model small=runs/demo --model models/gpt2 --port 0",
                     "folio serve --model gpt2 --model tuned=gpt2 --adapter tuned=my-adapter",
                     "folio serve --runs runs",
                     "folio serve --model runs/demo --host 0.0.0.0 --api-key-file keys.txt",
                     "folio serve --model runs/demo --trusted-proxy 127.0.0.1 --allow-host "
                     "models.example --access-log access.jsonl"}};
  }

  void AddFlags(Flags& flags) override {
    flags.List("--model", &models_, "a model to serve; may be given again",
               {.placeholder = "[NAME=]RUN|DIR|FILE"});
    flags.List("--adapter", &adapters_,
               "an adapter (LoRA) to add to the weights of the model, or of the one of that name",
               {.placeholder = "[NAME=]DIR"});
    flags.List("--runs", &runs_, "a directory of runs to show; ./runs where there is one",
               {.placeholder = "DIR"});
    flags.Value(Field{"host", &host_, "the address to listen at"});
    flags.Value(Field{"port", &port_, "its port; 0 takes one that is free", 0, 65535});
    flags.Value(Field{"api-key-file", &key_file_, "the keys that open it, [NAME:]KEY a line"},
                {.placeholder = "FILE"});
    flags.List("--allow-host", &hosts_, "another name by which it is called",
               {.placeholder = "NAME"});
    flags.List("--trusted-proxy", &proxies_,
               "a proxy whose X-Forwarded-For names the client: the last address in it that is no "
               "such proxy",
               {.placeholder = "ADDRESS[/BITS]"});
    flags.Value(Field{"access-log", &log_file_,
                      "append each request as a line of JSON; - for standard output"},
                {.placeholder = "FILE|-"});
    flags.List("--cors", &origins_, "pages of this origin may ask too", {.placeholder = "ORIGIN"});
    flags.Value(Field{"slots", &slots_, "texts that are written at once", 1, 1024});
    flags.Value(Field{"queue", &queue_,
                      "texts that may wait; beyond that requests are told to "
                      "come again (429)",
                      0, 1e6});
    flags.Value(Field{"timeout", &timeout_, "how long an answer may take"},
                {.placeholder = "TIME"});
    flags.Value(Field{"connections", &connections_, "clients at a time", 1, 1e5});
    flags.Value(Field{"request-memory", &request_memory_,
                      "MB that all requests may take together; 0: an eighth of what is free, at "
                      "most 1 GiB",
                      0, 1e7});
    model_.AddLoad(flags);
    model_.AddDecoding(flags);
    model_.AddCache(flags);
    model_.AddCompute(flags);
    flags.Switch("--no-sandbox", &no_sandbox_,
                 "let the process do all that its user may (folio doctor says what it is kept in)");
  }

  int Run(const Context& context) override {
    CatchSignals();
    CatchReload();
    model_.compute.Use();
    Console& console = context.console;
    ServiceOptions options = Options();
    if (models_.empty() && options.page.runs.empty()) {
      throw UsageError("nothing to serve", "there is no --model, and no directory of runs",
                       "add --model RUN|DIR|FILE, or --runs DIR to show runs alone");
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
    for (const std::string& given : models_) {
      const auto [name, path] = NameAndPath(given);
      service.Add(name, model_.Open(console, path, adapters[name]));
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
      console.Note(fmt::format("no new requests; {} connections end first (again: at once)", left));
    }
    serving.Stop();
    return 0;
  }

 private:
  ServiceOptions Options() const {
    ServiceOptions options{.scheduler = {.slots = slots_, .queue = queue_, .cache = model_.cache()},
                           .limits = {.seconds = ParseSeconds(timeout_, "--timeout")},
                           .access = {.hosts = hosts_, .origins = origins_, .proxies = Proxies()},
                           .page = ProgramPage(RunDirectories())};
    if (request_memory_ > 0) {
      options.limits.memory = std::make_shared<MemoryBudget>(request_memory_ * 1000 * 1000);
    }
    if (!key_file_.empty()) options.access.keys = ReadKeys(key_file_);
    if (options.access.keys.empty() && !IsLoopback(host_)) {
      throw UsageError(fmt::format("at {} other machines reach the service", host_),
                       "whoever finds it could use it",
                       "add --api-key-file FILE, or leave out --host");
    }
    return options;
  }

  // Before there is another thread, and before files of strangers are read.
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
    // SIGHUP opens what has their names then.
    if (!key_file_.empty()) AddDirectoriesOf(key_file_, rules.readable);
    if (!log_file_.empty() && log_file_ != "-") AddDirectoriesOf(log_file_, rules.writable);
    const Sandbox sandbox = EnterSandbox(rules);
    if (sandbox.landlock == 0 || !sandbox.seccomp) {
      console.Note(fmt::format(
          "this system has {}: what breaks into the service can do {}", DescribeSandbox(sandbox),
          sandbox.seccomp ? "to files what its user can" : "what its user can"));
    }
    Log(LogLevel::kDebug, fmt::format("sandbox: {}", DescribeSandbox(sandbox)));
  }

  std::vector<AddressBlock> Proxies() const {
    std::vector<AddressBlock> proxies;
    for (const std::string& given : proxies_) proxies.emplace_back(given, "--trusted-proxy");
    return proxies;
  }

  // A file that is none, or has none, leaves the keys as they are.
  void ReloadKeys(Console& console, Service& service) const {
    if (key_file_.empty()) return;
    try {
      AccessKeys keys = ReadKeys(key_file_);
      const size_t count = keys.size();
      service.SetKeys(std::move(keys));
      console.Note(fmt::format("{}: read again, {} keys", key_file_, count));
    } catch (const Error& error) {
      LogWarning(fmt::format("the keys stay as they are: {}: {}", error.what(), error.cause()));
    }
  }

  std::vector<fs::path> RunDirectories() const {
    constexpr char kDefault[] = "runs";
    std::error_code ignored;
    if (runs_.empty() && fs::is_directory(kDefault, ignored)) return {kDefault};
    for (const std::string& dir : runs_) RequireDirectory(dir, "the directory of runs");
    return {runs_.begin(), runs_.end()};
  }

  // By the names of their models.
  std::map<std::string, std::string> Adapters() const {
    std::vector<std::string> names;
    for (const std::string& given : models_) names.push_back(NameAndPath(given).first);
    std::map<std::string, std::string> adapters;
    for (const std::string& given : adapters_) {
      const size_t equals = given.find('=');
      const bool named = equals != std::string::npos && !fs::exists(given);
      if (!named && models_.size() != 1) {
        throw UsageError(fmt::format("--adapter {}: of which model?", given),
                         fmt::format("there are {} of them", models_.size()),
                         "write the name of its model before it: --adapter NAME=DIR");
      }
      const std::string name = named ? given.substr(0, equals) : names.front();
      if (!std::ranges::count(names, name)) {
        throw UsageError(fmt::format("--adapter {}: there is no model '{}'", given, name),
                         fmt::format("the models are {}", Join(names, ", ")));
      }
      if (!adapters.emplace(name, named ? given.substr(equals + 1) : given).second) {
        throw UsageError(fmt::format("--adapter {}: a second one for '{}'", given, name),
                         "a model is served with one", "serve it twice, under two names");
      }
    }
    return adapters;
  }

  std::vector<std::string> models_, adapters_, runs_, hosts_, proxies_, origins_;
  std::string host_ = "127.0.0.1", key_file_, log_file_, timeout_ = "10m";
  int64_t port_ = 8080, slots_ = 8, queue_ = 64, connections_ = 256, request_memory_ = 0;
  ModelFlags model_;
  bool no_sandbox_ = false;
};

}  // namespace

CommandList ServeCommands() {
  return CommandsOf<ServeCommand>();
}

}  // namespace folio
