#include "folio/io/line_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "folio/base/log.h"
#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

class LineFiles : public InTemporaryDirectory {
 protected:
  LineFiles() {
    SetLogSink(
        [this](LogLevel, std::string_view message) { warnings_ += std::string(message) + "\n"; });
  }
  ~LineFiles() override {
    SetLogSink([](LogLevel, std::string_view) {});
  }

  // No file may grow beyond so many bytes, as on a disk that is full.
  static void Limit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }

  std::string warnings_;
};

TEST_F(LineFiles, AreAppendedTo) {
  WriteFileAtomically(At("lines"), "one\n");
  LineFile file(At("lines"));
  file.Write("two\n");
  EXPECT_EQ(ReadFile(At("lines")), "one\ntwo\n");
  file.Finish();
  EXPECT_TRUE(Contains(ErrorOf([&] { LineFile(At("none/lines")); }, ErrorKind::kRuntime), "none"));
}

TEST_F(LineFiles, WaitForRoomAndLoseNothing) {
  LineFile file(At("lines"));
  file.Write("first\n");
  Limit(10);
  file.Write("second\n");
  EXPECT_EQ(ReadFile(At("lines")), "first\nseco");
  file.Write("third\n");
  EXPECT_EQ(Count(warnings_, "cannot write"), 1u) << warnings_;
  EXPECT_TRUE(Contains(ErrorOf([&] { file.Finish(); }, ErrorKind::kRuntime), "lines"));
  Limit(RLIM_INFINITY);
  file.Write("fourth\n");
  EXPECT_EQ(ReadFile(At("lines")), "first\nsecond\nthird\nfourth\n");
  file.Finish();
}

}  // namespace
}  // namespace folio
