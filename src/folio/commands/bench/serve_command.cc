#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/opened_model.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/serve/http_server.h"
#include "folio/serve/load.h"
#include "folio/serve/service.h"

namespace folio {
namespace {

// A service in this process, as `folio serve` runs one.
class LocalService {
  static constexpr int kClients = 4096;  // all of this machine

 public:
  LocalService(OpenedModel model, int64_t slots)
      : service_({.scheduler = {.slots = slots, .queue = 256}}, {}),
        server_([this](const HttpRequest& request) { return service_.Answer(request); },
                {.connections = kClients, .client_connections = kClients}) {
    service_.Add("model", std::move(model));
    port_ = server_.Bind("127.0.0.1", 0);
    serving_ = std::thread([this] { server_.Serve(); });
  }
  ~LocalService() {
    server_.Stop();
    serving_.join();
  }
  LocalService(const LocalService&) = delete;
  int port() const { return port_; }

 private:
  Service service_;
  HttpServer server_;
  std::thread serving_;
  int port_ = 0;
};

class BenchServeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench serve",
        .summary = "measure how a service of a model answers many clients",
        .group = "set-up",
        .details =
            "Starts a service of the model in this process, or takes one that runs (--port, of\n"
            "any program with OpenAI's interface), and has clients ask over loopback: each for a\n"
            "completion of --max-tokens tokens, as a stream, and then for the next. The first\n"
            "row is one client of a service with one slot. What a request gets must not depend\n"
            "on the others: answers that differ from what the same request got before are\n"
            "counted.",
        .examples = {"folio bench serve --model runs/demo",
                     "folio bench serve --model runs/demo --clients 1,8,64 --seconds 20 --json",
                     "folio bench serve --port 8080"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &model_, /*required=*/false);
    AddAdapterFlag(flags, &adapter_);
    flags.Value(Field{"port", &port_, "of a service that runs on this machine", 1, 65535});
    flags.Value(Field{"clients", &clients_, "how many at a time, one after the other"});
    flags.Value(Field{"slots", &slots_, "texts that the service writes at once", 1, 1024});
    flags.Value(Field{"seconds", &seconds_, "how long each number of clients asks", 0.1, 3600});
    flags.Value(Field{"max-tokens", &max_tokens_, "of each completion", 1, 1e6});
    flags.Value(Field{"prompts", &prompts_, "a text whose lines are the prompts"},
                {.placeholder = "FILE"});
    flags.Value(Field{"dtype", &dtype_, "as in folio serve"}.Choices(MatrixDtypeNames()));
    compute_.Add(flags);
  }

  int Run(const Context& context) override {
    compute_.Use();
    RequireModelFor(adapter_, model_);
    if (model_.empty() == !port_) {
      throw UsageError("name a model or a service", "--model begins a service, --port takes one",
                       "folio bench serve --model RUN");
    }
    Json rows = Json::array();
    if (!port_) Measure(context, "1 slot", 1, {1, 8}, rows);
    Measure(context, port_ ? fmt::format("port {}", *port_) : fmt::format("{} slots", slots_),
            slots_, Clients(), rows);
    if (context.console.json()) {
      context.console.Result(
          Json{{"schema", 1}, {"max_tokens", max_tokens_}, {"rows", rows}}.dump() + "\n");
    }
    return 0;
  }

 private:
  std::vector<int> Clients() const {
    std::vector<int> clients;
    for (const std::string& text : Split(clients_, ',')) {
      int number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > 1000) {
        throw UsageError(fmt::format("--clients: '{}' is no number from 1 to 1000", text));
      }
      clients.push_back(number);
    }
    return clients;
  }

  std::vector<std::string> Prompts() const {
    if (prompts_.empty()) {
      return {"Once upon a time",     "The",     "In the morning",           "She said",
              "There was a king who", "What is", "He went to the house and", "It is"};
    }
    constexpr uint64_t kMost = 64 << 20;
    constexpr size_t kMostPrompts = 1000, kLongest = 200;
    std::vector<std::string> prompts;
    for (const std::string& line : Split(ReadFile(prompts_, kMost), '\n')) {
      if (prompts.size() == kMostPrompts) break;
      if (!line.empty())
        prompts.push_back(line.substr(0, CompleteUtf8Prefix(line.substr(0, kLongest))));
    }
    if (prompts.empty()) throw InputError(fmt::format("{}: no lines", prompts_));
    return prompts;
  }

  void Measure(const Context& context, const std::string& name, int64_t slots,
               const std::vector<int>& clients, Json& rows) const {
    std::optional<LocalService> local;
    if (!port_) {
      local.emplace(OpenModel(model_, {.adapter = adapter_, .matrices = MatrixDtypeNamed(dtype_)}),
                    slots);
    }
    LoadGenerator generator({.port = local ? local->port() : static_cast<int>(*port_),
                             .prompts = Prompts(),
                             .max_tokens = max_tokens_,
                             .seconds = seconds_});
    for (const int count : clients) {
      const LoadResult result = generator.Run(count);
      Json row = result.json();
      row["service"] = name;
      rows.push_back(row);
      if (context.console.json()) continue;
      context.console.Result(fmt::format(
          "{:>8}, {:>3} clients: {:7.1f} requests/s {:8.0f} tokens/s  first token {:6.1f} ms "
          "(p99 {:6.1f})  refused {} failed {} different {}\n",
          name, count, static_cast<double>(result.requests) / result.seconds,
          static_cast<double>(result.tokens) / result.seconds,
          LoadResult::Quantile(result.first_token, 0.5) * 1e3,
          LoadResult::Quantile(result.first_token, 0.99) * 1e3, result.refused, result.failed,
          result.different));
    }
  }

  std::string model_, adapter_, prompts_, dtype_ = "auto", clients_ = "1,8,64";
  std::optional<int64_t> port_;
  int64_t slots_ = 8, max_tokens_ = 64;
  double seconds_ = 10;
  ComputeFlags compute_;
};

}  // namespace

std::unique_ptr<Command> NewBenchServeCommand() {
  return std::make_unique<BenchServeCommand>();
}

}  // namespace folio
