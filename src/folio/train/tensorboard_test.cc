#include "folio/train/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "folio/base/clock.h"
#include "folio/train/test_event_reader.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class TensorBoard : public InTemporaryDirectory {
 protected:
  std::vector<DecodedEvent> Decoded(const fs::path& path) {
    return ParseEvents(DecodeEvents(ReadRecords(path), At("")));
  }
};

TEST_F(TensorBoard, AFileBeginsWithItsVersion) {
  const TensorBoardWriter writer(At("a/b"));
  EXPECT_EQ(writer.path().parent_path(), At("a/b"));
  EXPECT_TRUE(writer.path().filename().string().starts_with("events.out.tfevents."));
  const std::vector<std::string> records = ReadRecords(writer.path());
  ASSERT_EQ(records.size(), 1u);
  // Field 1 is a double, field 3 a string of 13 bytes.
  EXPECT_EQ(records[0].size(), 9u + 2 + 13);
  EXPECT_EQ(records[0][0], '\x09');
  EXPECT_EQ(records[0].substr(9),
            "\x1A\x0D"
            "brain.Event:2");
}

TEST_F(TensorBoard, ScalarsAreTheBytesOfTheMessage) {
  TensorBoardWriter writer(At("."));
  writer.Scalar("ab", 300, -0.5, 1.0);
  writer.Flush();
  const std::string expected(
      "\x09\0\0\0\0\0\0\xF0\x3F"  // wall_time 1.0
      "\x10\xAC\x02"              // step 300
      "\x2A\x0B\x0A\x09"          // summary, its value
      "\x0A\x02"
      "ab"               // tag
      "\x15\0\0\0\xBF",  // simple_value -0.5
      9 + 3 + 4 + 4 + 5);
  EXPECT_EQ(ReadRecords(writer.path()).at(1), expected);
}

TEST_F(TensorBoard, EverythingIsOnDiskAfterFlushAndAtTheEnd) {
  fs::path path;
  {
    TensorBoardWriter writer(At("."));
    path = writer.path();
    for (int64_t step = 0; step < 1000; ++step) writer.Scalar("loss", step, 1, 2);
    writer.Flush();
    EXPECT_EQ(ReadRecords(path).size(), 1001u);
    writer.Scalar("loss", 1000, 1, 2);
  }
  EXPECT_EQ(ReadRecords(path).size(), 1002u);
}

TEST_F(TensorBoard, NamesOfLaterFilesAreBehind) {
  const TensorBoardWriter first(At(".")), second(At("."));
  EXPECT_LT(first.path().filename(), second.path().filename());
  WriteFileAtomically(At("events.out.tfevents.4000000000.host.1.0"), "");
  WriteFileAtomically(At("events.out.tfevents.zzz"), "");
  const TensorBoardWriter third(At("."));
  EXPECT_LT(fs::path("events.out.tfevents.4000000000.host.1.0"), third.path().filename());
}

TEST_F(TensorBoard, ADirectoryThatCannotBeIsAnError) {
  WriteFileAtomically(At("file"), "");
  EXPECT_TRUE(Contains(
      ErrorOf([&] { TensorBoardWriter(At("file/tensorboard")); }, ErrorKind::kRuntime), "file"));
}

TEST_F(TensorBoard, ProtocReadsWhatWasWritten) {
  if (!HasProtoc()) GTEST_SKIP() << "protoc is not installed";
  const std::string text =
      std::string("a \"b\"\n\t\\") + '\0' + "\xC3\xA9\xF0\x9F\x98\x80" + std::string(300, 'x');
  TensorBoardWriter writer(At("."));
  writer.Restart(7, 99.25);
  writer.Scalar("loss", 0, 1.0 / 3, 1700000000.125);
  writer.Scalar("val_loss", int64_t{1} << 40, std::numeric_limits<double>::quiet_NaN(), 2);
  writer.Scalar("big", 3, 1e300, 2);
  writer.Text("sample", 128, text, 3.5);
  writer.Flush();
  const std::vector<DecodedEvent> events = Decoded(writer.path());
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_NEAR(events[0].wall_time, WallSeconds(), 3600);
  EXPECT_EQ(events[1].session, "START");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[1].wall_time, 99.25);
  EXPECT_EQ(events[2].tag, "loss");
  EXPECT_EQ(events[2].step, 0);
  EXPECT_EQ(static_cast<float>(events[2].value), 1.0f / 3);
  EXPECT_EQ(events[2].wall_time, 1700000000.125);
  EXPECT_EQ(events[3].step, int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[3].value));
  EXPECT_TRUE(std::isinf(events[4].value));
  EXPECT_EQ(events[5].tag, "sample");
  EXPECT_EQ(events[5].plugin, "text");
  EXPECT_EQ(events[5].step, 128);
  EXPECT_EQ(events[5].text,
            "a \\\"b\\\"\\n\\t\\\\\\000\\303\\251\\360\\237\\230\\200" + std::string(300, 'x'));
}

}  // namespace
}  // namespace folio
