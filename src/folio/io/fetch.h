#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace folio {

// A file that must be downloaded exactly as it was published.
struct WantedFile {
  std::filesystem::path path;  // destination; its directory exists
  // Hexadecimal digits: 64 of SHA-256, or 40 of git's hash (SHA-1). "" if it is not known: the file
  // then has exactly `bytes` bytes, and an interrupted download is not continued.
  std::string hash;
  int64_t bytes = 0;           // more than these are refused
  std::string otherwise = {};  // what to do if it cannot be downloaded, for errors
};

// Returns true if there is a regular file at wanted.path with this hash. Throws a kInput Error if
// it cannot be read.
bool IsThere(const WantedFile& wanted);

struct FetchLimits {
  long connect_seconds = 20;
  // A connection that stays below `slowest` bytes a second for this time is given up as stalled.
  long stall_seconds = 30;
  long slowest = 100;
  // A download slower than `slowest_rate` bytes a second over this time is given up too, since it
  // would not end within days.
  double rate_seconds = 120;
  int64_t slowest_rate = 4096;
  // Called about once a second while waiting. An exception ends the work.
  std::function<void()> on_wait = {};
  // Schemes that a URL, and the target of a redirect, may have, separated by commas.
  std::string schemes = "https";
  std::string redirect_schemes = "https";
  std::string token = {};   // sent to the host of the URL, but to no host of a redirect
  std::string denied = {};  // what to do if the server refuses this user (401, 403)
};

// Called now and then with the number of bytes received; an exception ends the work.
using OnFetched = std::function<void(int64_t bytes)>;

// Downloads `url` to wanted.path with libcurl. The file appears only when all its bytes have been
// received and have the hash; an existing file stays untouched until then. If the download ends
// early a large part is kept beside it (PartialFile), and the next call continues behind that part
// if the server can. Bytes with another hash are discarded. Throws a kRuntime Error if the network
// fails, and a kInput Error if the bytes differ or the server refuses this user.
void FetchFile(const std::string& url, const WantedFile& wanted, const OnFetched& on_fetched,
               const FetchLimits& limits = {});

// An answer in memory.
struct FetchedPage {
  long status = 200;      // or 404, with an empty body
  std::string body = {};  // at most `max_bytes`
  std::string next = {};  // the address of the next page according to the server; "" for none
};

// Throws a kRuntime Error if the network fails or the server has no answer, and a kInput Error if
// the answer is longer than max_bytes.
FetchedPage FetchPage(const std::string& url, int64_t max_bytes, const FetchLimits& limits = {});

// FetchFile from a local file. Throws a kInput Error.
void CopyFile(const std::filesystem::path& from, const WantedFile& wanted);

}  // namespace folio
