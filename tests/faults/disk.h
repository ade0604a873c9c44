#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/calls.h"

namespace folio::faults {

// Reads the layer's journal; an incomplete last change of a killed process is left out.
std::vector<Change> ReadJournal(const std::filesystem::path& file);

// Which unsynced changes survive a power cut. A file's bytes are safe once it was synced; a name
// (created, moved, removed) once a directory was synced that it was or is in; a rename is atomic.
// Syncing a file does not make its name safe.
enum class Survives {
  kNothing,     // nothing that was not synced
  kNames,       // all names; files have the bytes of their last sync
  kNamesZeros,  // all names and lengths; bytes that were not synced are zeros
  kSome,        // chosen by a seed: names in the order of a log, or any that do not depend on a
                // lost one; for files the first unsynced writes, any of them, zeros, or nothing
  kAll,         // everything, as after a kill
};

// A directory whose changes are followed, and its state on a disk.
class Disk {
 public:
  // `before`: a copy of the directory as it was when the journal began.
  explicit Disk(std::filesystem::path before) : before_(std::move(before)) {}

  void Apply(const Change& change);
  // Makes `directory`, which must not exist, the state of the disk after a power cut now.
  void Cut(const std::filesystem::path& directory, Survives survives, uint64_t seed = 0) const;

 private:
  using Object = size_t;  // an index of objects_; 0 is none
  using Names = std::map<std::string, Object>;
  using Place = std::pair<Object, std::string>;  // a directory and a name in it
  struct Write {
    bool length = false;  // the file is truncated or extended to `at` bytes
    uint64_t at = 0;
    std::string bytes = {};
  };
  struct File {
    bool directory = false;
    std::string safe = {};             // at its last sync
    std::vector<Write> unsynced = {};  // in order
  };
  // A change of names, which is atomic on the disk.
  struct Step {
    std::map<Place, Object> names;
  };

  Object Made(uint64_t inode, File file);
  Object At(const std::string& path) const;
  Place PlaceOf(const std::string& path) const;
  void Take(Step step);
  void SyncNames(Object directory);
  static void Do(const Step& step, std::map<Object, Names>& names);
  static std::string After(const std::string& safe, const std::vector<Write>& writes);
  std::string Bytes(const File& file, Survives survives, uint64_t seed) const;
  void WriteOut(Object directory, const std::filesystem::path& to,
                const std::map<Object, Names>& names, Survives survives, uint64_t seed) const;
  std::vector<Step> Chosen(Survives survives, uint64_t seed) const;

  std::filesystem::path before_;
  std::vector<File> objects_ = {File{}};
  std::map<uint64_t, Object> by_inode_;  // the latest object with that number
  std::map<Object, Names> now_, safe_;   // of each directory
  std::vector<Step> unsynced_;           // changes of names, in order
};

}  // namespace folio::faults
