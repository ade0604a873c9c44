#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"

namespace folio {

// An empty directory of its own for each test, removed after it.
class InTemporaryDirectory : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("folio_io_") + test->test_suite_name() + "_" + test->name() +
                       "_" + std::to_string(::getpid());
    std::ranges::replace(name, '/', '_');  // in the names of parametrized tests
    directory_ = std::filesystem::path(testing::TempDir()) / name;
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path At(std::string_view name) const { return directory_ / name; }

  // Names in the directory, hidden ones too.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path directory_;
};

using Strings = std::vector<std::string>;

// Whether the text holds every one of the parts.
template <class... Parts>
testing::AssertionResult Contains(const std::string& text, const Parts&... parts) {
  for (const std::string& part : {std::string(parts)...}) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

// The Error that f throws, as "what | cause"; fails the test if it throws none.
template <class F>
std::string ErrorOf(F&& f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return std::string(error.what()) + " | " + error.cause();
  }
  ADD_FAILURE() << "no folio::Error";
  return {};
}

// header length, header, data: a safetensors file as it should or should not be.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 255u);
  }
  return bytes.append(header).append(data);
}

}  // namespace folio
