#include "tests/torture/run_files.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace folio::torture {
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

// Where two texts part, and what is there.
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
    // Which earlier checkpoints there are depends on where a run was stopped.
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
