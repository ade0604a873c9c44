#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace folio::torture {

using Words = std::vector<std::string>;

// How to start a process, send it signals, and wait for it.
struct Start {
  Words command;
  std::filesystem::path directory;  // working directory
  std::filesystem::path output;     // a file for both output streams
  // the complete environment, except PATH
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<std::pair<double, int>> signals = {};  // seconds after its start, in order
  double most_seconds = 60;                          // after this it counts as hanging, and is
                                                     // killed
  std::atomic<int>* process = nullptr;               // receives its process id
};

struct Ended {
  int status = -1;  // -1: ended by `signal`
  int signal = 0;
  bool hung = false;
  double seconds = 0;
  std::string output;

  bool Says(std::string_view text) const { return output.find(text) != output.npos; }
  std::string How() const;  // "ended with 1"
};

Ended Run(const Start& start);

double Now();  // Seconds of a steady clock.
std::string Joined(const Words& words);
// The parts between the separators, without empty ones.
Words Parts(const std::string& text, char separator);

// Files below a directory, including hidden ones: the bytes of files, "directory" for directories,
// by their paths. Parts that differ between runs are left out: times in metrics.jsonl, the number
// of threads in config.toml, and damaged lines that were put aside.
using Files = std::map<std::string, std::string>;
Files FilesOf(const std::filesystem::path& directory);

// Without hidden files.
Files Visible(Files files);

// How `found` differs from `wanted`, "" if it does not.
std::string Difference(const Files& wanted, const Files& found);

std::string BytesOf(const std::filesystem::path& file);

}  // namespace folio::torture
