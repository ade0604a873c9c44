#pragma once

#include <cstdint>
#include <string>

// A journal has all that a program changed below a directory, call by call, as the preloaded layer
// writes it.
namespace folio::faults {

struct Change {
  enum What : char {
    kThereFile = 'f',  // was there when the program began: `path` is inode `inode`
    kThereDirectory = 'd',
    kCreate = 'C',
    kMkdir = 'M',
    kWrite = 'W',     // `bytes` at `offset` of `inode`
    kTruncate = 'T',  // `inode` has `offset` bytes
    kSync = 'S',      // of a file or a directory
    kRename = 'R',    // `path` is now `other`
    kExchange = 'X',
    kLink = 'L',    // `other` is another name of `path`
    kRemove = 'U',  // a file or a directory
  };
  What what = kSync;
  uint64_t inode = 0, offset = 0;
  std::string path = {}, other = {};  // below the root; kWrite: `other` is the bytes
};

// How a change lies in the file: this, then `path`, then `other`.
struct ChangeHeader {
  char what;
  uint32_t path_bytes, other_bytes;
  uint64_t inode, offset;
};

}  // namespace folio::faults
