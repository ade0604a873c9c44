#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/corpus/text_stream.h"

namespace folio {

// The files to make data of.
struct TextFiles {
  std::vector<std::string> files;
  std::string left_out;  // what directories hold that is no text, in one line; "" if nothing
};

// Replaces each path that is a directory by the files below it that are texts, in the order of
// their names; what is hidden is passed over, and data sets too, with whatever is below them.
// Throws a kInput Error for a directory without any, and for files below it that are damaged.
TextFiles FindTextFiles(const std::vector<std::string>& paths, const TextOptions& options);

// Returns how many bytes of text the files have together; `enough` or more where it is that many,
// which saves unpacking what is compressed to the end. -1 where one of them can be read only once.
int64_t TextBytes(const std::vector<std::string>& files, const TextOptions& options,
                  int64_t enough);

}  // namespace folio
