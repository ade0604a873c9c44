#include "tests/torture/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace folio::torture {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Words Parts(const std::string& text, char separator) {
  std::istringstream stream(text);
  Words parts;
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
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

namespace {

namespace fs = std::filesystem;

std::string WithoutTimes(const std::string& bytes) {
  static const std::regex times(R"re(,"(tokens_per_second|seconds|time)":[-+.e0-9]*)re");
  return std::regex_replace(bytes, times, "");
}

std::string WithoutThreads(const std::string& bytes) {
  static const std::regex threads("\nthreads = [0-9]*");
  return std::regex_replace(bytes, threads, "");
}

// The first difference of two texts, with its context.
std::string FirstDifference(const std::string& wanted, const std::string& found) {
  const size_t at = static_cast<size_t>(std::ranges::mismatch(wanted, found).in1 - wanted.begin());
  const auto shown = [at](const std::string& text) {
    std::string part = text.substr(std::min(at - std::min<size_t>(at, 20), text.size()), 60);
    std::ranges::replace_if(
        part, [](char c) { return c < ' ' || c > '~'; }, '.');
    return part;
  };
  return std::to_string(found.size()) + " bytes for " + std::to_string(wanted.size()) +
         ", first at " + std::to_string(at) + ": '" + shown(found) + "' for '" + shown(wanted) +
         "'";
}

}  // namespace

std::string BytesOf(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

Files FilesOf(const fs::path& directory) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().lexically_relative(directory).string();
    if (name.ends_with(".damaged.jsonl")) continue;
    // The set of earlier checkpoints depends on where a run was stopped.
    static const std::regex earlier("(.*/)?steps(/[0-9].*)?");
    if (std::regex_match(name, earlier)) continue;
    if (entry.is_directory()) {
      files[name + "/"] = "directory";
    } else {
      std::string bytes = BytesOf(entry.path());
      if (name.ends_with("metrics.jsonl")) bytes = WithoutTimes(bytes);
      if (name.ends_with("config.toml")) bytes = WithoutThreads(bytes);
      files[name] = std::move(bytes);
    }
  }
  return files;
}

Files Visible(Files files) {
  std::erase_if(files, [](const auto& file) {
    return file.first.starts_with(".") || file.first.find("/.") != file.first.npos;
  });
  return files;
}

std::string Difference(const Files& wanted, const Files& found) {
  std::string differ, missing, extra, first;
  const auto add = [](std::string& names, const std::string& name) {
    names += (names.empty() ? "" : ", ") + name;
  };
  for (const auto& [name, bytes] : wanted) {
    const auto it = found.find(name);
    if (it == found.end()) {
      add(missing, name);
    } else if (it->second != bytes) {
      add(differ, name);
      // A figure follows from the numbers.
      if (first.empty() || first.starts_with("run/loss.svg")) {
        first = name + ": " + FirstDifference(bytes, it->second);
      }
    }
  }
  for (const auto& [name, bytes] : found) {
    if (!wanted.contains(name)) add(extra, name);
  }
  std::string all;
  if (!missing.empty()) all += "[missing: " + missing + "] ";
  if (!differ.empty()) all += "[other bytes: " + differ + "] ";
  if (!extra.empty()) all += "[left over: " + extra + "] ";
  return all.empty() ? "" : all + "\n  " + first;
}

}  // namespace folio::torture
