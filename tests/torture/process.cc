#include "tests/torture/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "tests/torture/run_files.h"

namespace folio::torture {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string Ended::How() const {
  if (hung) return "hung";
  return status >= 0 ? "ended with " + std::to_string(status)
                     : "was ended by signal " + std::to_string(signal);
}

Ended Run(const Start& start) {
  std::vector<std::string> environment = {std::string("PATH=") + std::getenv("PATH"),
                                          "HOME=" + start.directory.string()};
  for (const auto& [name, value] : start.environment) environment.push_back(name + "=" + value);
  std::vector<char*> words, variables;
  for (const std::string& word : start.command) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& line : environment) variables.push_back(const_cast<char*>(line.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, start.output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, start.directory.c_str());
  pid_t process = 0;
  const int error =
      posix_spawn(&process, words[0], &actions, nullptr, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + start.command[0]);
  if (start.process != nullptr) *start.process = process;

  const double begin = Now();
  Ended ended;
  int how = 0;
  for (size_t sent = 0; waitpid(process, &how, WNOHANG) == 0;) {
    ended.seconds = Now() - begin;
    if (sent < start.signals.size() && ended.seconds >= start.signals[sent].first) {
      kill(process, start.signals[sent++].second);
    } else if (ended.seconds > start.most_seconds && !ended.hung) {
      ended.hung = true;
      kill(process, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  ended.seconds = Now() - begin;
  ended.status = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  ended.signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
  ended.output = BytesOf(start.output);
  return ended;
}

}  // namespace folio::torture
