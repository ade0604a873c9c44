#include "folio/io/fetch.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/byte_reader.h"
#include "folio/io/checksums.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr long kMaxRedirects = 5;

Error NoLibcurl(const char* cause) {
  return RuntimeError("cannot use the network", cause,
                      "install libcurl (on Debian: apt install libcurl4)");
}

struct Libcurl : internal::LateLibrary {
  Libcurl() : LateLibrary({"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"}, NoLibcurl) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      throw NoLibcurl("libcurl does not start");
    }
  }

  FOLIO_LATE_FUNCTION(curl_global_init);
  FOLIO_LATE_FUNCTION(curl_easy_init);
  FOLIO_LATE_FUNCTION(curl_easy_cleanup);
  FOLIO_LATE_FUNCTION(curl_easy_setopt);
  FOLIO_LATE_FUNCTION(curl_easy_perform);
  FOLIO_LATE_FUNCTION(curl_easy_strerror);
  FOLIO_LATE_FUNCTION(curl_easy_getinfo);
};

// Opened and initialised once. Throws a kRuntime Error if it is not installed.
const Libcurl& TheLibcurl() {
  static const Libcurl library;
  return library;
}

[[noreturn]] void ThrowOther(const std::string& source, const WantedFile& wanted,
                             const std::string& cause) {
  throw InputError(fmt::format("{} differs from the published file", source), cause,
                   wanted.otherwise);
}

constexpr size_t kGitDigits = 40;

// The kind of hash that a wanted file has.
Digest DigestFor(const WantedFile& wanted) {
  return wanted.hash.size() == kGitDigits ? Digest::OfGitBlob(wanted.bytes) : Digest::Sha256();
}

void CheckHash(const std::string& source, const WantedFile& wanted, int64_t bytes,
               const std::string& found) {
  if (wanted.hash.empty() ? bytes == wanted.bytes : found == wanted.hash) return;
  if (wanted.hash.empty()) {
    ThrowOther(source, wanted,
               fmt::format("it has {} bytes, the published file has {}", bytes, wanted.bytes));
  }
  const char* kind = wanted.hash.size() == kGitDigits ? "git hash" : "sha256";
  ThrowOther(source, wanted,
             fmt::format("{} bytes with {} {}; published: {} bytes with {}", bytes, kind, found,
                         wanted.bytes, wanted.hash));
}

void AddFile(const fs::path& path, Digest& hash) {
  ReadPieces(path, [&](std::string_view piece) { hash.Add(piece); });
}

// Receives the bytes of a wanted file: hashes, counts and writes them.
class Arrival {
 public:
  // Begins with what an earlier attempt has left. `source` is the origin in errors.
  Arrival(const WantedFile& wanted, std::string source)
      : wanted_(wanted),
        source_(std::move(source)),
        file_(wanted.path, KeyOf(wanted), kWorthKeeping) {
    if (file_.bytes() > wanted.bytes || wanted.hash.empty()) StartAnew();
    if (file_.bytes() > 0) AddFile(file_.path(), hash_);
  }

  int64_t bytes() const { return file_.bytes(); }

  void Add(std::string_view piece) {
    if (piece.size() > static_cast<uint64_t>(wanted_.bytes - bytes())) {
      file_.Clear();
      ThrowOther(source_, wanted_,
                 fmt::format("it is longer than the published {} bytes", wanted_.bytes));
    }
    hash_.Add(piece);
    file_.Add(piece);
  }
  void StartAnew() {
    file_.Clear();
    hash_ = DigestFor(wanted_);
  }
  void Commit() {
    const int64_t bytes = file_.bytes();
    const std::string found = hash_.Hex();
    try {
      CheckHash(source_, wanted_, bytes, found);
    } catch (const Error&) {
      file_.Clear();
      throw;
    }
    file_.Commit();
  }

 private:
  static std::string_view KeyOf(const WantedFile& wanted) {
    constexpr size_t kKey = 16;
    return wanted.hash.empty() ? "unknown" : std::string_view(wanted.hash).substr(0, kKey);
  }

  static constexpr int64_t kWorthKeeping = 4096;

  const WantedFile& wanted_;
  std::string source_;
  PartialFile file_;
  Digest hash_ = DigestFor(wanted_);
};

// Detects bytes that come too slowly, in consecutive periods of `seconds`.
class RateGuard {
 public:
  explicit RateGuard(const FetchLimits& limits)
      : seconds_(limits.rate_seconds), slowest_(limits.slowest_rate), since_(SteadySeconds()) {}

  // Returns the error's text if `bytes`, all that have come, are too few; else "".
  std::string TooSlow(int64_t bytes) {
    const double now = SteadySeconds(), passed = now - since_;
    if (passed < seconds_) return "";
    const int64_t came = bytes - std::exchange(before_, bytes);
    since_ = now;
    if (static_cast<double>(came) >= passed * static_cast<double>(slowest_)) return "";
    return fmt::format("too slow: {} bytes in {:.0f} s, less than {} per second", came, passed,
                       slowest_);
  }

 private:
  double seconds_;
  int64_t slowest_;
  double since_;
  int64_t before_ = 0;
};

// The answer of a server as libcurl's callbacks receive it. Exceptions must not pass through C
// code: they are kept in `problem`.
struct Transfer {
  std::function<void(std::string_view piece)> on_piece;
  std::function<void()> on_progress;
  std::function<void(std::string_view line)> on_header;
  std::exception_ptr problem = nullptr;
  int64_t bytes = 0;  // received in this request

  template <class F>
  bool Try(const F& f) {
    try {
      f();
      return true;
    } catch (...) {
      problem = std::current_exception();
      return false;
    }
  }
};

size_t OnBytes(char* bytes, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  transfer.bytes += static_cast<int64_t>(size * count);
  const bool taken = transfer.Try([&] { transfer.on_piece({bytes, size * count}); });
  return taken ? size * count : 0;
}

size_t OnHeader(char* bytes, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const bool taken = transfer.Try([&] { transfer.on_header({bytes, size * count}); });
  return taken ? size * count : 0;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(context);
  return transfer.Try([&] { transfer.on_progress(); }) ? 0 : 1;
}

struct CurlDeleter {
  void operator()(CURL* curl) const { TheLibcurl().curl_easy_cleanup(curl); }
};

void SetUp(CURL* curl, const std::string& url, const FetchLimits& limits, int64_t from,
           const std::string& otherwise, Transfer& transfer, char* reason) {
  const auto set = TheLibcurl().curl_easy_setopt;
  set(curl, CURLOPT_URL, url.c_str());
  // If libcurl did not know a scheme it would keep all of them allowed.
  if (set(curl, CURLOPT_PROTOCOLS_STR, limits.schemes.c_str()) != CURLE_OK ||
      set(curl, CURLOPT_REDIR_PROTOCOLS_STR, limits.redirect_schemes.c_str()) != CURLE_OK) {
    throw RuntimeError(fmt::format("cannot fetch {}", url),
                       fmt::format("this libcurl does not support {}", limits.schemes), otherwise);
  }
  set(curl, CURLOPT_FOLLOWLOCATION, 1L);
  set(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  set(curl, CURLOPT_FAILONERROR, 1L);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_CONNECTTIMEOUT, limits.connect_seconds);
  set(curl, CURLOPT_LOW_SPEED_TIME, limits.stall_seconds);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, limits.slowest);
  set(curl, CURLOPT_USERAGENT, "folio");
  set(curl, CURLOPT_ERRORBUFFER, reason);
  set(curl, CURLOPT_WRITEFUNCTION, OnBytes);
  set(curl, CURLOPT_WRITEDATA, &transfer);
  set(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  set(curl, CURLOPT_HEADERDATA, &transfer);
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  set(curl, CURLOPT_XFERINFODATA, &transfer);
  set(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(from));
  if (limits.token.empty()) return;
  // Without CURLOPT_UNRESTRICTED_AUTH the token is sent only to the first host and port.
  set(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
  set(curl, CURLOPT_XOAUTH2_BEARER, limits.token.c_str());
}

struct Outcome {
  CURLcode result = CURLE_OK;
  long status = 0;
  std::string reason = {};  // set if the result is not CURLE_OK
};

// Requests the bytes of `url` from `from` on. Throws what `transfer` threw.
Outcome Perform(const std::string& url, const FetchLimits& limits, int64_t from,
                const std::string& otherwise, Transfer& transfer) {
  std::array<char, CURL_ERROR_SIZE> reason = {};
  const Libcurl& library = TheLibcurl();
  const std::unique_ptr<CURL, CurlDeleter> curl(library.curl_easy_init());
  if (curl == nullptr) throw RuntimeError("cannot use the network", "libcurl does not start");
  RateGuard rate(limits);
  std::string slow;
  transfer.on_progress = [&, on_progress = std::move(transfer.on_progress)] {
    if (on_progress) on_progress();
    if (limits.on_wait) limits.on_wait();
    slow = rate.TooSlow(transfer.bytes);
    if (!slow.empty()) throw RuntimeError(slow);
  };
  SetUp(curl.get(), url, limits, from, otherwise, transfer, reason.data());
  Outcome outcome{.result = library.curl_easy_perform(curl.get())};
  if (!slow.empty()) {
    outcome.reason = slow;
    return outcome;
  }
  if (transfer.problem != nullptr) std::rethrow_exception(transfer.problem);
  (library.curl_easy_getinfo)(curl.get(), CURLINFO_RESPONSE_CODE, &outcome.status);
  outcome.reason = reason[0] != '\0' ? reason.data() : library.curl_easy_strerror(outcome.result);
  return outcome;
}

[[noreturn]] void ThrowFailed(const std::string& url, const Outcome& outcome,
                              const FetchLimits& limits, const std::string& more,
                              const std::string& otherwise) {
  const std::string what = fmt::format("cannot fetch {}", url);
  const bool denied = outcome.status == 401 || outcome.status == 403;
  if (denied && !limits.denied.empty()) {
    throw InputError(what, fmt::format("the server refused the request ({})", outcome.status),
                     limits.denied);
  }
  throw RuntimeError(what, outcome.reason + more, otherwise);
}

// Requests what is still missing. Returns false if the server cannot begin in the middle.
bool Transferred(const std::string& url, const WantedFile& wanted, Arrival& arrival,
                 const OnFetched& on_fetched, const FetchLimits& limits) {
  const bool resumed = arrival.bytes() > 0;
  Transfer transfer{.on_piece = [&](std::string_view piece) { arrival.Add(piece); },
                    .on_progress = [&] { on_fetched(arrival.bytes()); },
                    .on_header = [](std::string_view) {}};
  const Outcome outcome = Perform(url, limits, arrival.bytes(), wanted.otherwise, transfer);
  constexpr long kNothingThere = 416;  // libcurl may treat it as success
  if (resumed && (outcome.result == CURLE_RANGE_ERROR || outcome.status == kNothingThere)) {
    return false;
  }
  if (outcome.result == CURLE_OK) return true;
  ThrowFailed(url, outcome, limits,
              arrival.bytes() > 0 ? fmt::format("; {} bytes received", arrival.bytes()) : "",
              wanted.otherwise);
}

// The address in a header line "Link: <address>; rel="next""; "" for other lines.
std::string NextOf(std::string_view line) {
  constexpr std::string_view kLink = "link:";
  if (LowerAscii(line.substr(0, kLink.size())) != kLink) return "";
  for (const std::string& part : Split(std::string(line.substr(kLink.size())), ',')) {
    const size_t begin = part.find('<'), end = part.find('>');
    if (begin == part.npos || end == part.npos || end < begin) continue;
    if (part.find("rel=\"next\"", end) == part.npos) continue;
    return part.substr(begin + 1, end - begin - 1);
  }
  return "";
}

}  // namespace

FetchedPage FetchPage(const std::string& url, int64_t max_bytes, const FetchLimits& limits) {
  FetchedPage page;
  Transfer transfer{.on_piece =
                        [&](std::string_view piece) {
                          page.body += piece;
                          if (std::ssize(page.body) <= max_bytes) return;
                          throw InputError(fmt::format("{} is too large", url),
                                           fmt::format("it has more than {} bytes", max_bytes));
                        },
                    .on_progress = [] {},
                    .on_header =
                        [&](std::string_view line) {
                          if (line.starts_with("HTTP/")) page.next.clear();  // behind a redirect
                          if (std::string next = NextOf(line); !next.empty()) page.next = next;
                        }};
  const Outcome outcome = Perform(url, limits, 0, "", transfer);
  page.status = outcome.status;
  if (outcome.status == 404) return {.status = 404};
  if (outcome.result != CURLE_OK) {
    ThrowFailed(url, outcome, limits, "", "check the network and try again");
  }
  return page;
}

bool IsThere(const WantedFile& wanted) {
  std::error_code error;
  if (!fs::is_regular_file(wanted.path, error)) return false;
  if (fs::file_size(wanted.path, error) > static_cast<uintmax_t>(wanted.bytes)) return false;
  if (wanted.hash.empty()) {
    return fs::file_size(wanted.path, error) == static_cast<uintmax_t>(wanted.bytes);
  }
  Digest hash = DigestFor(wanted);
  AddFile(wanted.path, hash);
  return hash.Hex() == wanted.hash;
}

void FetchFile(const std::string& url, const WantedFile& wanted, const OnFetched& on_fetched,
               const FetchLimits& limits) {
  Arrival arrival(wanted, url);
  if (arrival.bytes() < wanted.bytes && !Transferred(url, wanted, arrival, on_fetched, limits)) {
    arrival.StartAnew();
    Transferred(url, wanted, arrival, on_fetched, limits);
  }
  arrival.Commit();
}

void CopyFile(const fs::path& from, const WantedFile& wanted) {
  const MappedFile file(from);
  const std::string_view bytes = AsText(file.bytes());
  if (bytes.size() > static_cast<uint64_t>(wanted.bytes)) {  // possibly an endless file
    ThrowOther(
        from.string(), wanted,
        fmt::format("it has {} bytes, the published file has {}", bytes.size(), wanted.bytes));
  }
  Digest hash = DigestFor(wanted);
  hash.Add(bytes);
  CheckHash(from.string(), wanted, static_cast<int64_t>(bytes.size()), hash.Hex());
  WriteFileAtomically(wanted.path, bytes);
}

}  // namespace folio
