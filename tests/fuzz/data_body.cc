#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "bodies.h"
#include "folio/base/error.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/dataset.h"
#include "input.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// A directory that goes with the process.
class DataScratch {
 public:
  DataScratch() : dir_(fs::temp_directory_path() / fmt::format("folio-fuzz-data-{}", ::getpid())) {
    fs::create_directories(dir_);
  }
  ~DataScratch() {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }
  std::string dir() const { return dir_.string(); }
  std::string Write(const std::string& name, std::string_view bytes) const {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
    return (dir_ / name).string();
  }

 private:
  fs::path dir_;
};

testing::AssertionResult RefusesAtMost(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) {
      return testing::AssertionFailure() << "not a kInput Error: " << error.what();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult TextIsReadOrRefused(std::string_view bytes) {
  static const DataScratch scratch;
  FuzzInput input(bytes);
  const uint8_t kind = input.Byte();
  // What begins each kind of file, so that few inputs end at the recognition.
  constexpr std::string_view kBegins[] = {"",
                                          "\x1F\x8B\x08",
                                          "BZh91AY&SY",
                                          std::string_view("\xFD\x37zXZ\0", 6),
                                          "\x28\xB5\x2F\xFD",
                                          "\xFF\xFE",
                                          "\xFE\xFF",
                                          "[{\"text\":",
                                          "[\"",
                                          "{\"text\":\"",
                                          "{\n\"text\":"};
  const std::string text = std::string(kBegins[kind % std::size(kBegins)]).append(input.Rest());
  const std::string path = scratch.Write(kind < 128 ? "t" : "t.jsonl", text);
  return RefusesAtMost([&] {
    TextStream stream(path, {});
    stream.begins_with_document();
    std::string out;
    while (stream.Read(out, 100) > 0 && out.size() < (size_t{1} << 24)) continue;
  });
}

testing::AssertionResult TokensAreReadOrRefused(std::string_view bytes) {
  static const DataScratch scratch;
  FuzzInput input(bytes);
  const std::string header =
      TokenHeader(input.Byte(), input.Byte() % 2 == 0 ? TokenWidth::k16 : TokenWidth::k32);
  const bool train_header = input.Byte() % 2 == 0, val_header = input.Byte() % 4 == 0;
  const std::string_view val = input.Take(input.Byte());
  scratch.Write("train.bin", std::string(train_header ? header : "").append(input.Rest()));
  scratch.Write("val.bin", std::string(val_header ? header : "").append(val));
  return RefusesAtMost([&] {
    const Dataset data(scratch.dir());
    data.train().Validate(0);
    data.val().Validate(0);
  });
}

}  // namespace folio
