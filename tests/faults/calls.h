#pragma once

#include <array>
#include <cstdint>
#include <string>

// Names shared by the preloaded layer (layer.cc) and its users.
namespace folio::faults {

// Calls that change something below the root. `open` counts those that may: for writing, or that
// create or truncate; `close` those of files that were opened for writing; `unlink` also rmdir.
enum Kind {
  kOpenCall,
  kWriteCall,
  kTruncateCall,
  kAllocateCall,
  kSyncCall,
  kRenameCall,
  kLinkCall,
  kUnlinkCall,
  kMkdirCall,
  kCloseCall
};
inline constexpr std::array<const char*, 10> kKindNames = {
    "open", "write", "truncate", "allocate", "sync", "rename", "link", "unlink", "mkdir", "close"};

// The environment of a program under the layer.
//   FOLIO_FAULT_ROOT     the directory below which calls count: absolute, without links
//   FOLIO_FAULT_COUNTS   a file of the size of Counts, where the layer counts; outlives a kill
//   FOLIO_FAULT_JOURNAL  a file to which every change is appended (disk.h)
//   FOLIO_FAULTS         rules with commas between:
//     KIND:WHEN:WHAT       the calls of a kind, or `any`: 7 for the seventh, 7+ from there, 7-9;
//                          WHAT is ENOSPC, EIO, EDQUOT, EROFS; short (half of a write's bytes);
//                          kill (before the call); tear (half of a write, then kill)
//     space:BYTES          a disk with so much room: the write that is too long is cut, and what
//                          comes after it fails with ENOSPC; space:BYTES:N until N calls failed
inline constexpr char kRootVariable[] = "FOLIO_FAULT_ROOT";
inline constexpr char kCountsVariable[] = "FOLIO_FAULT_COUNTS";
inline constexpr char kJournalVariable[] = "FOLIO_FAULT_JOURNAL";
inline constexpr char kRulesVariable[] = "FOLIO_FAULTS";

struct Counts {
  uint64_t loaded = 0;  // kLoaded, once the layer is there
  uint64_t any = 0;     // calls of all kinds
  uint64_t injected = 0;
  std::array<uint64_t, kKindNames.size()> calls = {};
};
inline constexpr uint64_t kLoaded = 0x666f6c696f;

// The exit status of a program that made a call which the layer cannot follow: a file mapped for
// writing, bytes copied by the kernel, a name moved across the root. Stderr says which.
inline constexpr int kCannotFollow = 98;

// An entry of a journal, which has all changes of a program below a directory, call by call, as the
// preloaded layer writes it.
struct Change {
  enum What : char {
    kThereFile = 'f',  // existed when the program began: `path` is inode `inode`
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

// The form of a change in the file: this, then `path`, then `other`.
struct ChangeHeader {
  char what;
  uint32_t path_bytes, other_bytes;
  uint64_t inode, offset;
};

}  // namespace folio::faults
