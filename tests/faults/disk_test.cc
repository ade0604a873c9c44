// These tests look at what a power cut leaves of changes that are written down here by hand.
#include "tests/faults/disk.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/kit/directory.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using faults::Change;
using faults::Disk;
using faults::Survives;
using Files = std::map<std::string, std::string>;

class PowerCuts : public InTemporaryDirectory {
 protected:
  // The directory holds the file `old` and the directory `in`, and then this happens.
  Files After(const std::vector<Change>& changes, Survives survives, uint64_t seed = 0) const {
    fs::create_directories(At("before/in"));
    std::ofstream(At("before/old")) << "old bytes";
    Disk disk(At("before"));
    disk.Apply({Change::kThereDirectory, 1});
    disk.Apply({Change::kThereFile, 2, 0, "old"});
    disk.Apply({Change::kThereDirectory, 3, 0, "in"});
    for (const Change& change : changes) disk.Apply(change);
    fs::remove_all(At("after"));
    disk.Cut(At("after"), survives, seed);
    return FilesBelow(At("after"));
  }
  static std::vector<Change> Joined(std::vector<Change> one, const std::vector<Change>& two) {
    one.insert(one.end(), two.begin(), two.end());
    return one;
  }
  const std::vector<Change> created_ = {{Change::kCreate, 4, 0, "in/new"},
                                        {Change::kWrite, 4, 0, "", "bytes"}};
  const Files unchanged_ = {{"old", "old bytes"}};
};

TEST_F(PowerCuts, AFileNeedsTheSyncOfItsBytesAndOfItsName) {
  const Change file = {Change::kSync, 4}, directory = {Change::kSync, 3}, root = {Change::kSync, 1};
  const auto with = [&](const std::vector<Change>& syncs) {
    return After(Joined(created_, syncs), Survives::kNothing);
  };
  EXPECT_EQ(with({}), unchanged_);
  EXPECT_EQ(with({file}), unchanged_);
  EXPECT_EQ(with({root}), unchanged_);
  EXPECT_EQ(with({directory})["in/new"], "");
  EXPECT_EQ(with({file, directory})["in/new"], "bytes");
  EXPECT_EQ(After(created_, Survives::kAll)["in/new"], "bytes");
}

TEST_F(PowerCuts, NamesMayComeWithoutBytesOrWithZeros) {
  const Files names = After(created_, Survives::kNames),
              zeros = After(created_, Survives::kNamesZeros);
  EXPECT_EQ(names.at("in/new"), "");
  EXPECT_EQ(zeros.at("in/new"), std::string(5, '\0'));
  const std::vector<Change> appended = {{Change::kWrite, 2, 9, "", " and more"}};
  EXPECT_EQ(After(appended, Survives::kNamesZeros).at("old"), "old bytes" + std::string(9, '\0'));
  EXPECT_EQ(After(appended, Survives::kNothing).at("old"), "old bytes");
}

TEST_F(PowerCuts, ARenameIsWholeAndTakesWhatCameBeforeItAlong) {
  std::vector<Change> moved =
      Joined(created_, {{Change::kSync, 4}, {Change::kRename, 0, 0, "in/new", "old"}});
  EXPECT_EQ(After(moved, Survives::kNothing), unchanged_);
  moved.push_back({Change::kSync, 1});
  EXPECT_EQ(After(moved, Survives::kNothing), (Files{{"old", "bytes"}}));
  const std::vector<Change> exchanged = {{Change::kMkdir, 5, 0, "other"},
                                         {Change::kCreate, 6, 0, "other/x"},
                                         {Change::kSync, 5},
                                         {Change::kExchange, 0, 0, "in", "other"},
                                         {Change::kRemove, 0, 0, "other"},
                                         {Change::kSync, 1}};
  EXPECT_EQ(After(exchanged, Survives::kNothing), (Files{{"old", "old bytes"}, {"in/x", ""}}));
}

TEST_F(PowerCuts, SomeIsBetweenNothingAndAllAndTheSameForOneSeed) {
  const std::vector<Change> changes = Joined(created_, {{Change::kRemove, 0, 0, "old"}});
  std::set<Files> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Files files = After(changes, Survives::kSome, seed);
    EXPECT_EQ(files, After(changes, Survives::kSome, seed));
    for (const auto& [name, bytes] : files) {
      EXPECT_TRUE(name == "old"
                      ? bytes == "old bytes"
                      : std::string("bytes").starts_with(bytes) || bytes == std::string(5, '\0'));
    }
    seen.insert(files);
  }
  EXPECT_TRUE(seen.contains(unchanged_));
  EXPECT_TRUE(seen.contains(Files{}));
  EXPECT_TRUE(seen.contains(Files{{"in/new", "bytes"}}));
  EXPECT_TRUE(seen.contains(Files{{"old", "old bytes"}, {"in/new", "bytes"}}));
}

TEST_F(PowerCuts, AJournalThatAKillCutOffIsReadToThere) {
  faults::ChangeHeader header = {};
  header.what = Change::kRemove;
  header.path_bytes = 3;
  const std::string record =
      std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + "old";
  std::ofstream(At("journal"), std::ios::binary) << record << record.substr(0, record.size() - 1);
  const std::vector<Change> changes = faults::ReadJournal(At("journal"));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].path, "old");
}

}  // namespace
}  // namespace folio
