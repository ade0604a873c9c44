#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/kit/program.h"

namespace folio {

using Clock = std::chrono::steady_clock;

// A call of the program in its own process and directory.
struct Child {
  pid_t pid = 0;
  std::filesystem::path dir = {};
  Clock::time_point end = {};
  int signals = 0;  // number of signals sent
};

// A directory for calls, and in it "in" with small inputs and a trained run on them.
class Children : public testing::Test {
 protected:
  static void MakeInputs(const std::string& name) {
    root_ = std::filesystem::path(testing::TempDir()) / (name + std::to_string(getpid()));
    const std::filesystem::path in = root_ / "in";
    std::filesystem::create_directories(in);
    std::filesystem::create_directories(root_ / "home");
    std::string text;
    for (int i = 0; i < 40; ++i) text += "a small text to learn from, " + std::to_string(i % 10);
    std::ofstream(in / "text.txt") << text;
    std::ofstream(in / "short.txt") << text.substr(0, 60);
    std::ofstream(in / "ids.txt") << "97 98 32 99\n";
    std::ofstream(in / "items.jsonl")
        << "{\"ctx\": \"a small\", \"endings\": [\" text\", \" form\"], \"label\": 0}\n";
    const ProgramRun run = RunShell(
        in,
        "$F train --data text.txt --tokenizer bytes --out run --batch 2 --max-steps 2 --set "
        "model.n_layer=1 model.n_head=2 model.n_embd=8 model.n_positions=16 "
        "train.eval_batches=2 log.sample_every=1");
    ASSERT_EQ(run.status, 0) << run.err;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root_); }

  // Starts `call` in a child, in a directory that `prepare` fills, without input and network, and
  // with all output in a log.
  template <class Prepare, class Call>
  static void Start(Child& child, Clock::duration patience, const Prepare& prepare,
                    const Call& call) {
    static int number = 0;
    child.dir = root_ / std::to_string(number++);
    std::filesystem::create_directories(child.dir);
    prepare(child.dir);
    const std::string log = child.dir.string() + ".log", home = root_ / "home";
    std::ofstream{log};
    child.end = Clock::now() + patience;
    child.pid = fork();
    ASSERT_GE(child.pid, 0);
    if (child.pid != 0) return;
    const int out = open(log.c_str(), O_WRONLY | O_APPEND), in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    clearenv();
    setenv("HOME", home.c_str(), 1);
    setenv("FOLIO_HOME", home.c_str(), 1);
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    if (chdir(child.dir.c_str()) != 0) _exit(99);
    _exit(call());
  }

  static std::string Said(const Child& child) {
    std::ifstream log(child.dir.string() + ".log", std::ios::binary);
    return {std::istreambuf_iterator<char>(log), {}};
  }

  // Runs `calls`, several at a time since some only wait: start(child) begins each, finish(child,
  // status, used) checks the result. A slow one gets SIGTERM, and SIGKILL if it takes `more`
  // seconds longer.
  template <class Call, class Start, class Finish>
  static void RunAll(const std::vector<Call>& calls, Clock::duration more, const Start& start,
                     const Finish& finish) {
    const size_t at_once = 2 * std::thread::hardware_concurrency() + 2;
    std::vector<Call> running;
    for (size_t next = 0; next < calls.size() || !running.empty();) {
      while (next < calls.size() && running.size() < at_once) {
        running.push_back(calls[next++]);
        start(running.back());
      }
      std::erase_if(running, [&](Call& one) {
        int status = 0;
        rusage used = {};
        if (wait4(one.pid, &status, WNOHANG, &used) == one.pid) {
          finish(one, status, used);
          std::filesystem::remove_all(one.dir);
          std::filesystem::remove(one.dir.string() + ".log");
          return true;
        }
        if (Clock::now() < one.end) return false;
        kill(one.pid, one.signals++ == 0 ? SIGTERM : SIGKILL);
        one.end = Clock::now() + more;
        return false;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  static inline std::filesystem::path root_;
};

}  // namespace folio
