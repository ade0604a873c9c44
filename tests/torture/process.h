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
// What is between the separators, without what is empty.
Words Parts(const std::string& text, char separator);

// Files below a directory, hidden or not: the bytes of files, "directory" of directories, by
// their paths. What differs from one run to the next is left out: times in metrics.jsonl, the
// number of threads in config.toml, and the lines that were put aside as damaged.
using Files = std::map<std::string, std::string>;
Files FilesOf(const std::filesystem::path& directory);

// Without what is hidden.
Files Visible(Files files);

// How `found` differs from `wanted`, "" if not at all.
std::string Difference(const Files& wanted, const Files& found);

std::string BytesOf(const std::filesystem::path& file);

}  // namespace folio::torture
