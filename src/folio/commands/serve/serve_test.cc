#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <thread>

#include "folio/base/clock.h"
#include "folio/base/strings.h"
#include "folio/commands/train/test_train.h"
#include "folio/serve/http_client.h"
#include "folio/serve/sandbox.h"
#include "folio/serve/test_raw_client.h"
#include "tests/kit/expect.h"
#include "tests/kit/paths.h"
#include "tests/kit/sanitized.h"

namespace folio {
namespace {

class Serve : public TrainTest {
 protected:
  void SetUp() override { ASSERT_EQ(Train().status, 0); }
  ~Serve() override {
    if (process_ > 0) End(SIGKILL);
  }

  // Starts a service of the run and reads the address that it prints.
  void Start(const std::string& more) {
    Begin("serve --port 0 --no-config --model " + At("run").string() + " " + more);
  }
  void Begin(const std::string& command) {
    for (const char* said : {"out", "err"}) std::filesystem::remove(At(said));
    const std::string words = "exec " + ProgramPath() + " " + command + " > out 2> err";
    process_ = in_terminal_ ? forkpty(&terminal_, nullptr, nullptr, nullptr) : fork();
    if (process_ == 0) {
      signal(SIGHUP, SIG_DFL);  // under nohup, too
      if (chdir(At("").c_str()) != 0) _exit(1);
      execl("/bin/sh", "sh", "-c", words.c_str(), nullptr);
      _exit(1);
    }
    const double end = SteadySeconds() + 60;
    std::smatch url;
    std::string told;
    while (!std::regex_search(told, url, std::regex("http://[0-9.]+:[0-9]+\\b"))) {
      ASSERT_LT(SteadySeconds(), end) << told;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      told = Out() + Err();
      if (told.ends_with('\n')) continue;
      told.clear();  // it is still being written
    }
    url_ = url.str();
    client_.emplace("127.0.0.1", std::stoi(url_.substr(url_.rfind(':') + 1)));
  }
  std::string Err() const {
    return std::filesystem::exists(At("err")) ? ReadFile(At("err"), 1 << 20) : "";
  }
  std::string Out() const {
    return std::filesystem::exists(At("out")) ? ReadFile(At("out"), 1 << 20) : "";
  }
  int End(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(std::exchange(process_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t process_ = 0;
  bool in_terminal_ = false;  // its standard input is a terminal, whose other end is `terminal_`
  int terminal_ = -1;
  std::string url_;
  std::optional<HttpClient> client_;
};

TEST_F(Serve, AnswersWithWhatGenerateWrites) {
  Start("");
  const auto answer = client_->Ask("POST", "/v1/completions",
                                   R"({"model":"run","prompt":"a small","max_tokens":8,"seed":3})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const ProgramRun written =
      RunFolio("generate --seed 3 --max-tokens 8 --prompt 'a small' --model " + At("run").string());
  EXPECT_EQ("a small" +
                nlohmann::json::parse(answer.body)["choices"][0]["text"].get<std::string>() + "\n",
            written.out);
  EXPECT_EQ(End(SIGTERM), 0);
}

TEST_F(Serve, LogsItsRequestsWithoutTheirText) {
  Start("--json --access-log - --model other=" + At("run/last").string());
  const nlohmann::json head = nlohmann::json::parse(Split(Out(), '\n').at(0));
  EXPECT_EQ(head["models"], nlohmann::json::array({"run", "other"})) << head;
  client_->Ask("POST", "/v1/completions", R"({"model":"other","prompt":"learn from"})");
  client_->Get("/a%1bb", {{"X-Request-Id", "mine"}});
  EXPECT_EQ(End(SIGTERM), 0);
  const nlohmann::json line = nlohmann::json::parse(Split(Out(), '\n').at(1));
  EXPECT_EQ(line["path"], "/v1/completions");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(nlohmann::json::parse(Split(Out(), '\n').at(2))["id"], "mine");
  EXPECT_EQ((Out() + Err()).find("learn from"), std::string::npos);
}

TEST_F(Serve, TellsItsRequestsOnTheTerminal) {
  Start("");
  client_->Get("/a%22b%1b[2J", {{"X-Request-Id", "mine"}});
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_EQ(Out(), url_ + "\n");
  EXPECT_TRUE(std::regex_search(
      Err(), std::regex("\n?20[0-9-]{8}T[0-9:.]{12}Z 127.0.0.1 - GET /a%22b%1B\\[2J 404 0.[0-9]+ s "
                        "mine\n")))
      << Err();
}

TEST_F(Serve, SighupReadsKeysAndOpensTheLogAnew) {
  const auto keys = [&](const std::string& text) {
    WriteFileAtomically(At("keys"), text);
    std::filesystem::permissions(At("keys"), std::filesystem::perms(0600));
  };
  const auto status = [&](const char* key) {
    const auto answer = client_->Get("/v1/models", {{"X-Api-Key", key}});
    return answer.status;
  };
  // Reloads until it has reported this.
  const auto reload = [&](const char* word) {
    const size_t before = Count(Err(), word);
    kill(process_, SIGHUP);
    for (const double end = SteadySeconds() + 60; Count(Err(), word) == before;) {
      ASSERT_LT(SteadySeconds(), end) << Err();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  keys("first:one\nsecond:two\n");
  Start("--api-key-file keys --access-log log");
  EXPECT_EQ(status("one"), 200);
  EXPECT_EQ(status("three"), 401);
  keys("second:two\nthird:three\n");
  std::filesystem::rename(At("log"), At("log.1"));
  reload(": reloaded, 2 keys");
  EXPECT_EQ(status("one"), 401) << "it is gone";
  EXPECT_EQ(status("two"), 200);
  EXPECT_EQ(status("three"), 200);
  keys("a b:key\n");
  reload("keys not reloaded:");
  EXPECT_EQ(status("two"), 200);
  for (const char* none : {"", "# none\n"}) {
    keys(none);
    reload("reloaded, no keys");
    for (const char* key : {"two", "three", ""}) EXPECT_EQ(status(key), 401) << none;
  }
  keys("second:two\nthird:three\n");
  reload("reloaded, 2 keys");
  std::filesystem::remove(At("keys"));
  reload("keys not reloaded:");
  EXPECT_EQ(status("three"), 200);
  EXPECT_EQ(End(SIGTERM), 0);
  const auto names = [&](const char* log) {
    Strings of_lines;
    for (const std::string& line : Split(ReadFile(At(log)), '\n')) {
      if (!line.empty()) of_lines.push_back(nlohmann::json::parse(line)["key"]);
    }
    return of_lines;
  };
  EXPECT_EQ(names("log.1"), (Strings{"first", ""}));
  EXPECT_EQ(names("log"),
            (Strings{"", "second", "third", "second", "", "", "", "", "", "", "third"}));
  EXPECT_EQ(Err().find("GET"), std::string::npos) << "what is logged is not told besides";
}

// In rounds of forty, each from one address, with bodies that are refused when they are complete.
TEST_F(Serve, LargeBodiesTakeNoMoreThanTheMemoryOfRequests) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep what was freed";
  constexpr int kBudget = 64;  // MB
  Start(fmt::format("--request-memory {} --threads 2", kBudget));
  const int port = std::stoi(url_.substr(url_.rfind(':') + 1));
  const auto megabytes = [&](const std::string& key) {
    const std::string status = ReadFile(fmt::format("/proc/{}/status", process_));
    return std::stoi(status.substr(status.find(key + ":") + key.size() + 1)) / 1000;
  };
  client_->Ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3})");
  const int before = megabytes("VmRSS");
  std::string body = R"({"prompt":")";
  for (int i = 0; i < 1'900'000; ++i) body += "a b ";
  body += R"("})";
  const std::string request = fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: "
      "{}\r\n\r\n{}",
      body.size(), body);
  std::atomic<int> read = 0;  // and found to be too long
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> clients;
    for (int i = 0; i < 40; ++i) {
      clients.emplace_back([&, i] {
        const RawClient client(port, fmt::format("127.0.7.{}", i + 1).c_str());
        client.Send(request);
        read += Contains(client.Receive(), " 400 ") ? 1 : 0;
      });
    }
    for (std::thread& client : clients) client.join();
  }
  EXPECT_GT(read, 4);
  constexpr int kBuffers = 16;  // MB, of forty connections and twenty threads
  EXPECT_LE(megabytes("VmHWM") - before, kBudget + kBuffers);
  EXPECT_LE(megabytes("VmRSS") - before, kBuffers);
}

// The systemd unit restarts it after the status with which it ends.
TEST_F(Serve, AModelThatIsCutEndsItWithAStatusThatIsRestarted) {
  Start("");
  for (const auto& file : std::filesystem::recursive_directory_iterator(At("run"))) {
    if (file.path().filename() == "model.safetensors") std::filesystem::resize_file(file, 100);
  }
  client_->Ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3})");
  int status = 0;
  waitpid(std::exchange(process_, 0), &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(Contains(Err(), "model.safetensors became shorter")) << Err();
  const std::string unit = ReadFile(SourceDir() / "packaging/systemd/folio.service.in");
  EXPECT_TRUE(Contains(unit, "Restart=on-failure\n"));
  std::smatch prevented;
  ASSERT_TRUE(std::regex_search(unit, prevented, std::regex("RestartPreventExitStatus=(.*)")));
  EXPECT_EQ(prevented.str(1).find(std::to_string(WEXITSTATUS(status))), std::string::npos);
}

TEST_F(Serve, EndsWithItsTerminal) {
  in_terminal_ = true;
  Start("");
  EXPECT_EQ(client_->Get("/health").status, 200);
  close(terminal_);
  EXPECT_EQ(End(0), 0) << Err();
}

TEST_F(Serve, LetsRequestsEndBeforeItDoes) {
  Start("");
  int status = 0;
  std::string text;
  std::thread asking([&] {
    const auto answer = client_->Ask("POST", "/v1/completions",
                                     R"({"model":"run","prompt":"a","max_tokens":9,"n":64})");
    if (answer) status = answer.status;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(End(SIGTERM), 0);
  asking.join();
  // It was started, or never accepted; it was not interrupted.
  EXPECT_TRUE(status == 200 || status == 0) << status;
}

TEST_F(Serve, ARunShowsItselfAsItTrains) {
  Begin(Words("--overwrite --max-steps 1000000 --serve --port 0"));
  nlohmann::json run;
  const double end = SteadySeconds() + 60;
  while (run["step"].is_null() || run["step"] < 20) {
    ASSERT_LT(SteadySeconds(), end) << Err();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto runs = client_->Get("/api/runs");
    if (!runs) continue;
    const nlohmann::json all = nlohmann::json::parse(runs.body)["runs"];
    ASSERT_LE(all.size(), 1u) << all;
    if (all.size() == 1) run = all[0];
  }
  EXPECT_EQ(run["id"], "run");
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(client_->Get("/").status, 200);
  EXPECT_NE(Err().find("training page: " + url_ + "/#/runs?r=run\n"), std::string::npos) << Err();
  EXPECT_EQ(End(SIGINT), 130) << Err();
}

TEST_F(Serve, ARunIsStoppedAndWrittenWithFromItsPage) {
  Begin(Words("--overwrite --max-steps 1000000 --set train.checkpoint_every=10 --serve --port 0"));
  const auto info = [&] { return nlohmann::json::parse(client_->Get("/api/info").body); };
  EXPECT_EQ(info()["features"], nlohmann::json::array({"runs", "stop"}));
  int status = 0;
  std::string opened;
  for (const double end = SteadySeconds() + 60; status != 200;) {
    ASSERT_LT(SteadySeconds(), end) << opened << Err();
    const auto answer = client_->Ask("POST", "/api/runs/run/open", "{}");
    if (answer) status = answer.status;
    opened = answer.body;
  }
  const std::string model = nlohmann::json::parse(opened)["model"];
  EXPECT_TRUE(model.starts_with("run@")) << model;
  EXPECT_EQ(info()["model"]["name"], model);
  const auto written = client_->Ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3})");
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_EQ(client_->Ask("POST", "/api/runs/run/stop", "{}").status, 202);
  EXPECT_EQ(End(0), 130) << Err();
  // The last completed step is saved: the log has its loss, or an evaluation after it. A run that
  // is stopped at once has none.
  const Strings rows = Split(ReadFile(At("run/metrics.jsonl")), '\n');
  int steps = 0;
  if (rows.size() > 1) {
    const auto last = nlohmann::json::parse(rows.at(rows.size() - 2));
    steps = last["step"].get<int>() + (last.contains("loss") ? 1 : 0);
  }
  const auto state = nlohmann::json::parse(ReadFile(At("run/last/train_state/state.json")));
  EXPECT_EQ(state["step"], steps);
}

TEST_F(Serve, ARunWhosePageHasNoPortDoesNotBegin) {
  Start("");
  const std::string port = url_.substr(url_.rfind(':') + 1);
  ExpectError(
      1, "train --serve --port " + port + " --out " + At("other").string() + " --data " + data_,
      port);
  EXPECT_FALSE(std::filesystem::exists(At("other")));
}

// The values of a line of /proc/PID/task/*/status, of every thread.
std::set<std::string> OfThreads(pid_t process, const std::string& line) {
  std::set<std::string> values;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string text; std::getline(status, text);) {
      if (text.starts_with(line + ":\t")) values.insert(text.substr(line.size() + 2));
    }
  }
  return values;
}

TEST_F(Serve, EveryThreadIsInASandbox) {
  if (!FindSandbox().seccomp) GTEST_SKIP() << "this kernel has no seccomp";
  using Values = std::set<std::string>;
  Start("");
  EXPECT_GT(
      std::distance(
          std::filesystem::directory_iterator("/proc/" + std::to_string(process_) + "/task"), {}),
      1);
  EXPECT_EQ(OfThreads(process_, "Seccomp"), Values{"2"});
  EXPECT_EQ(OfThreads(process_, "NoNewPrivs"), Values{"1"});
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_EQ(Err(), "");

  Start("--no-sandbox");
  EXPECT_EQ(OfThreads(process_, "Seccomp"), OfThreads(getpid(), "Seccomp"));
  EXPECT_EQ(OfThreads(process_, "NoNewPrivs"), OfThreads(getpid(), "NoNewPrivs"));
}

TEST_F(Serve, ReadsNothingBesideItsModelsAndRuns) {
  if (FindSandbox().landlock == 0) GTEST_SKIP() << "this kernel has no Landlock";
  std::filesystem::create_directories(At("runs"));
  std::filesystem::create_directory_symlink(At("run"), At("runs/elsewhere"));
  const auto copy = [&](const std::string& to) {
    std::filesystem::copy(At("run"), At(to), std::filesystem::copy_options::recursive);
  };
  copy("runs/here");
  copy("model");
  // The ids of the runs whose last step is known.
  const auto read = [&] {
    std::set<std::string> ids;
    const auto answer = client_->Get("/api/runs");
    const auto said = nlohmann::json::parse(answer ? answer.body : R"({"runs":[]})");
    for (const auto& run : said["runs"]) {
      if (run.contains("step")) ids.insert(run["id"]);
    }
    return ids;
  };
  const std::string command = "serve --port 0 --no-config --model " + At("model").string() +
                              " --runs " + At("runs").string();
  Begin(command);
  EXPECT_EQ(read(), std::set<std::string>{"here"});
  copy("runs/later");
  EXPECT_EQ(read(), (std::set<std::string>{"here", "later"}));
  EXPECT_EQ(End(SIGTERM), 0);

  Begin(command + " --no-sandbox");
  EXPECT_EQ(read(), (std::set<std::string>{"elsewhere", "here", "later"}));
}

TEST_F(Serve, AModelBehindLinksIsServed) {
  // Like a cache of downloads: each file is a link to a blob elsewhere.
  std::filesystem::create_directories(At("snapshot"));
  for (const auto& file : std::filesystem::directory_iterator(At("run/last"))) {
    if (file.is_regular_file()) {
      std::filesystem::create_symlink(file.path(), At("snapshot") / file.path().filename());
    }
  }
  Begin("serve --port 0 --no-config --model " + At("snapshot").string());
  const auto models = client_->Get("/v1/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(nlohmann::json::parse(models.body)["data"][0]["id"], "snapshot");
}

TEST_F(Serve, MistakesAreSaid) {
  WriteFileAtomically(At("keys"), "a-key");
  std::filesystem::permissions(At("keys"), std::filesystem::perms(0600));
  const std::string model = "serve --port 0 --model " + At("run").string() + " ";
  ExpectError(2, model + "--host 0.0.0.0", "other machines can connect to 0.0.0.0",
              "--api-key-file");
  ExpectError(3, model + "--host 0.0.0.0 --api-key-file nowhere", "nowhere");
  WriteFileAtomically(At("none"), "# no key yet\n");
  std::filesystem::permissions(At("none"), std::filesystem::perms(0600));
  ExpectError(3, model + "--api-key-file " + At("none").string(), "no key", "openssl rand");
  ExpectError(2, model + "--host example.com --api-key-file " + At("keys").string(),
              "'example.com' is not an address");
  ExpectError(2, model + "--model " + At("run").string(), "two models have the name 'run'");
  ExpectError(3, "serve --model " + At("nothing").string(), "nothing");
  ExpectError(2, model + "--timeout soon", "--timeout");
  ExpectError(2, model + "--trusted-proxy localhost", "--trusted-proxy: 'localhost'");
  ExpectError(1, model + "--access-log nowhere/log", "cannot write the log");
  ExpectError(2, "serve", "give a model, or --runs DIR");
  ExpectError(3, "serve --runs nowhere", "nowhere");
}

}  // namespace
}  // namespace folio
