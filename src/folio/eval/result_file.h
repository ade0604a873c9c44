#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "folio/infer/opened_model.h"
#include "folio/io/file.h"

namespace folio {

// A file of lines, one for each thing that was measured, which appears when it is whole. The lines
// of an interrupted call lie beside it (PartialFile) and are handed back, so that the next call
// with the same key goes on behind it and leaves the same bytes.
class ResultFile {
 public:
  // `key` says all that the lines depend on. Throws a kRuntime Error as PartialFile.
  ResultFile(const std::filesystem::path& path, const std::string& key);

  // Returns true while there are lines left from before; a last one without its end is none.
  bool resuming() const { return !before_.empty(); }
  // The next `count` of those lines, each with its line break; empty if there are not so many.
  std::string_view Next(size_t count);
  // The lines of the last Next stay; without it they and all that follow go.
  void Accept();
  // Nothing more is taken from before.
  void Stop();

  // REQUIRES: not resuming.
  void Add(std::string_view lines);
  void Commit() { file_.Commit(); }

 private:
  PartialFile file_;
  MappedFile map_;
  std::string_view before_;  // what was not accepted yet, whole lines
  size_t looked_at_ = 0;     // bytes of the last Next
  int64_t accepted_ = 0;
};

// Returns the note for people where lines left from before are not what they should be.
std::string DamagedNote(const std::filesystem::path& path);

// Returns a text that is different for models with different numbers: it covers the configuration,
// every weight, the tokenizer and the backend. Reads all weights.
std::string ModelFingerprint(const OpenedModel& model);

}  // namespace folio
