#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/base/utf8.h"

namespace folio {

// A file that data is made from: its text is one document, or, if its name ends in .jsonl, the
// "text" of each of its lines is one. A byte order mark at its beginning is no part of it, here and
// in all counts. Opened anew for each piece, so that there may be any number.
class PrepareSource {
 public:
  // Throws a kInput Error if there is no such regular file, or if it cannot be read.
  explicit PrepareSource(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  bool marked() const { return mark_ > 0; }       // had a byte order mark
  int64_t modified() const { return modified_; }  // time of the last change, in the system's units
  bool json_lines() const { return json_lines_; }

  // Bytes [begin, end), which replace what is in `out`. Throws a kInput Error if they cannot be
  // read or are no longer there.
  void Read(int64_t begin, int64_t end, std::string& out) const;
  // Line and column of a byte; reads all before it.
  TextPosition PositionOf(int64_t byte) const;
  // Throws a kInput Error if length or time of the file are not what they were.
  void CheckUnchanged() const;

 private:
  std::string path_;
  int64_t mark_ = 0;   // bytes before those that count
  int64_t bytes_ = 0;  // behind the mark
  int64_t modified_ = 0;
  bool json_lines_ = false;
};

}  // namespace folio
