#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "folio/data/dataset.h"

namespace folio {

struct PrepareOptions {
  std::vector<std::string> files;  // read in this order, as one text
  std::string tokenizer = "char";  // char | bytes
  std::string out;                 // directory
  double val_fraction = 0.1;       // in [0, 1): the end of the text that becomes val.bin
  bool overwrite = false;          // replace a data set that is already there
};

// How many bytes were read of how many that will be; `char` reads everything twice. May throw to
// stop: nothing is left behind.
using PrepareProgress = std::function<void(int64_t done, int64_t total)>;

// Turns text files into a data set directory, in pieces, so that memory does not grow with the
// files. The text is all files in a row; the first int((1 - val_fraction) * n) of its n characters
// (for `bytes`: of its bytes) are train.bin, the rest val.bin. `bytes` puts end-of-text between
// files. The directory appears when it is whole; one that holds anything but a data set is never
// replaced.
//
// Throws a kUsage Error for the options, a kInput Error for the files (missing, empty, not UTF-8,
// changed while they were read), a kRuntime Error where `out` cannot be written.
DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareProgress& progress = {});

}  // namespace folio
