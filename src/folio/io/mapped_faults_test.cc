#include "folio/io/mapped_faults.h"

#include <gtest/gtest.h>

#include <csignal>

#include "folio/io/file.h"
#include "tests/kit/directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

int SumOf(const MappedFile& file) {
  int sum = 0;
  for (const std::byte byte : file.bytes()) sum += static_cast<int>(byte);
  return sum;
}

class MappedFaults : public InTemporaryDirectory {};

TEST_F(MappedFaults, NameTheFileThatBecameShorter) {
  const fs::path path = At("tokens.bin"), other = At("other.bin");
  WriteFileAtomically(path, std::string(1 << 20, 'x'));
  WriteFileAtomically(other, std::string(1 << 20, 'y'));
  const auto shorten = [&] {
    ReportMappedFaults();
    const MappedFile before(other);
    MappedFile file(path);
    const MappedFile moved = std::move(file), after(other);
    fs::resize_file(path, 1000);
    std::exit(SumOf(moved) % 2);
  };
  EXPECT_EXIT(shorten(), testing::ExitedWithCode(3), "tokens.bin became shorter");
}

TEST_F(MappedFaults, AreNoExcuseForOthers) {
  const fs::path path = At("tokens.bin");
  WriteFileAtomically(path, "text");
  const auto fail = [&] {
    ReportMappedFaults();
    const MappedFile file(path);
    std::raise(SIGBUS);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(fail(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace folio
