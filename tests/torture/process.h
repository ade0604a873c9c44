#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace folio::torture {

using Words = std::vector<std::string>;

// A process that is started, perhaps sent signals, and waited for.
struct Start {
  Words command;
  std::filesystem::path directory;  // where it runs
  std::filesystem::path output;     // a file for what it prints, both streams
  std::vector<std::pair<std::string, std::string>> environment = {};  // all of it, but PATH
  std::vector<std::pair<double, int>> signals = {};  // so many seconds after its start, in order
  double most_seconds = 60;                          // then it hangs, and is killed
  std::atomic<int>* process = nullptr;               // becomes its number
};

struct Ended {
  int status = -1;  // -1: by `signal`
  int signal = 0;
  bool hung = false;
  double seconds = 0;
  std::string output;

  bool Says(std::string_view text) const { return output.find(text) != output.npos; }
  std::string How() const;  // "ended with 1"
};

Ended Run(const Start& start);

double Now();  // seconds of a clock that only goes forward
std::string Joined(const Words& words);

}  // namespace folio::torture
