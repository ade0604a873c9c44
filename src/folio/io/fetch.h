#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace folio {

// A file that must come out exactly as it was published.
struct WantedFile {
  std::filesystem::path path;  // where it is to lie; its directory exists
  // Of its bytes, in hexadecimal digits: 64 of SHA-256, or 40 of what git calls it (SHA-1). "" if
  // nobody knows it: its size is then that of `bytes`, and a download is never gone on with.
  std::string hash;
  int64_t bytes = 0;           // no more are taken
  std::string otherwise = {};  // what to do where it cannot be got, for errors
};

// Returns whether there is a regular file at wanted.path with this hash. Throws a kInput Error if
// it cannot be read.
bool IsThere(const WantedFile& wanted);

struct FetchLimits {
  long connect_seconds = 20;
  // Slower than `slowest` bytes a second for so long is given up: the connection stalls.
  long stall_seconds = 30;
  long slowest = 100;
  // And so is what comes with fewer than `slowest_rate` bytes a second over so long, which would
  // not end within days.
  double rate_seconds = 120;
  int64_t slowest_rate = 4096;
  // Called about each second while anything is awaited. What it throws ends the work.
  std::function<void()> on_wait = {};
  // Schemes that a URL, and one that a server sends elsewhere to, may have: a comma between them.
  std::string schemes = "https";
  std::string redirect_schemes = "https";
  std::string token = {};   // sent to the host of the URL, and to no other that it sends on to
  std::string denied = {};  // what to do where the server refuses this user (401, 403)
};

// Called now and then with the bytes that have come; what it throws ends the work.
using OnFetched = std::function<void(int64_t bytes)>;

// Downloads `url` to wanted.path with libcurl. The file appears only when all its bytes have come
// and have the hash; what lay there is untouched until then. Where it ends early a large part is
// kept beside it (PartialFile), and the next call goes on behind that, if the server can. Of
// bytes with another hash nothing is kept. Throws a kRuntime Error where the network fails, and a
// kInput Error where the bytes are others or the server refuses this user.
void FetchFile(const std::string& url, const WantedFile& wanted, const OnFetched& on_fetched,
               const FetchLimits& limits = {});

// An answer in memory.
struct FetchedPage {
  long status = 200;      // or 404, then without a body
  std::string body = {};  // of `max_bytes` at most
  std::string next = {};  // the address of the next page that the server names; "" for none
};

// Throws a kRuntime Error where the network fails or the server has no answer, and a kInput Error
// for one that is longer.
FetchedPage FetchPage(const std::string& url, int64_t max_bytes, const FetchLimits& limits = {});

// FetchFile from a file. Throws a kInput Error.
void CopyFile(const std::filesystem::path& from, const WantedFile& wanted);

}  // namespace folio
