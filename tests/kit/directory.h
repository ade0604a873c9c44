#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

using Strings = std::vector<std::string>;

// The bytes of every file below a directory, by its path in it.
inline std::map<std::string, std::string> FilesBelow(const std::filesystem::path& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().lexically_relative(dir).string()] = bytes.str();
  }
  return files;
}

// An empty directory for each test, removed after it.
class InTemporaryDirectory : public testing::Test {
 protected:
  InTemporaryDirectory() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("folio_") + test->test_suite_name() + "_" + test->name() + "_" +
                       std::to_string(::getpid());
    std::ranges::replace(name, '/', '_');  // in the names of parametrized tests
    directory_ = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~InTemporaryDirectory() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path At(std::string_view name) const { return directory_ / name; }

  // Writes a new file, creating its directories, and returns its path. It is not flushed: thousands
  // of flushes take a minute.
  std::filesystem::path PutFile(std::string_view name, std::string_view bytes) const {
    std::filesystem::remove(At(name));
    std::filesystem::create_directories(At(name).parent_path());
    std::ofstream(At(name), std::ios::binary) << bytes;
    return At(name);
  }

  // Names in the directory, including hidden ones.
  Strings Names() const {
    Strings names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace folio
