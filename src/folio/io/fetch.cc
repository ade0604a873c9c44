#include "folio/io/fetch.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include "folio/base/error.h"
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
  throw InputError(fmt::format("{} is not the published file", source), cause, wanted.otherwise);
}

void CheckHash(const std::string& source, const WantedFile& wanted, int64_t bytes,
               const std::string& found) {
  if (found == wanted.sha256) return;
  ThrowOther(source, wanted,
             fmt::format("{} bytes have the sha256 {}, and {} with {} were published", bytes, found,
                         wanted.bytes, wanted.sha256));
}

// The bytes of a wanted file as they come: hashed, counted, written.
class Arrival {
 public:
  // Begins with what an earlier one has left. `source` is where they come from, for errors.
  Arrival(const WantedFile& wanted, std::string source)
      : wanted_(wanted),
        source_(std::move(source)),
        file_(wanted.path, std::string_view(wanted.sha256).substr(0, kKey)) {
    if (file_.bytes() > wanted.bytes) StartAnew();
    if (file_.bytes() > 0) hash_->Add(AsText(MappedFile(file_.path()).bytes()));
  }

  int64_t bytes() const { return file_.bytes(); }

  void Add(std::string_view piece) {
    if (piece.size() > static_cast<uint64_t>(wanted_.bytes - bytes())) {
      file_.Clear();
      ThrowOther(source_, wanted_,
                 fmt::format("it is longer than the {} bytes that were published", wanted_.bytes));
    }
    hash_->Add(piece);
    file_.Add(piece);
  }
  void StartAnew() {
    file_.Clear();
    hash_ = std::make_unique<Sha256>();
  }
  void Commit() {
    const int64_t bytes = file_.bytes();
    const std::string found = hash_->Hex();
    if (found != wanted_.sha256) file_.Clear();
    CheckHash(source_, wanted_, bytes, found);
    file_.Commit();
  }

 private:
  static constexpr size_t kKey = 16;

  const WantedFile& wanted_;
  std::string source_;
  PartialFile file_;
  std::unique_ptr<Sha256> hash_ = std::make_unique<Sha256>();
};

// The state that libcurl's callbacks see. Exceptions do not pass through C: they wait in `problem`.
struct Transfer {
  Arrival& arrival;
  const OnFetched& on_fetched;
  std::exception_ptr problem;

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
  const bool taken = transfer.Try([&] { transfer.arrival.Add({bytes, size * count}); });
  return taken ? size * count : 0;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(context);
  return transfer.Try([&] { transfer.on_fetched(transfer.arrival.bytes()); }) ? 0 : 1;
}

struct CurlDeleter {
  void operator()(CURL* curl) const { TheLibcurl().curl_easy_cleanup(curl); }
};

void SetUp(CURL* curl, const std::string& url, const WantedFile& wanted, const FetchLimits& limits,
           Transfer& transfer, char* reason) {
  const auto set = TheLibcurl().curl_easy_setopt;
  set(curl, CURLOPT_URL, url.c_str());
  // Where libcurl does not know a scheme it would go on allowing all of them.
  if (set(curl, CURLOPT_PROTOCOLS_STR, limits.schemes.c_str()) != CURLE_OK ||
      set(curl, CURLOPT_REDIR_PROTOCOLS_STR, limits.redirect_schemes.c_str()) != CURLE_OK) {
    throw RuntimeError(fmt::format("cannot fetch {}", url),
                       fmt::format("this libcurl does not speak {}", limits.schemes),
                       wanted.otherwise);
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
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  set(curl, CURLOPT_XFERINFODATA, &transfer);
  set(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.arrival.bytes()));
}

// One request for what is still to come. False where the server cannot begin in the middle.
bool Transferred(const std::string& url, const WantedFile& wanted, Arrival& arrival,
                 const OnFetched& on_fetched, const FetchLimits& limits) {
  const bool resumed = arrival.bytes() > 0;
  Transfer transfer{arrival, on_fetched, nullptr};
  std::array<char, CURL_ERROR_SIZE> reason = {};
  const Libcurl& library = TheLibcurl();
  const std::unique_ptr<CURL, CurlDeleter> curl(library.curl_easy_init());
  if (curl == nullptr) throw RuntimeError("cannot use the network", "libcurl does not start");
  SetUp(curl.get(), url, wanted, limits, transfer, reason.data());
  const CURLcode result = library.curl_easy_perform(curl.get());
  if (transfer.problem != nullptr) std::rethrow_exception(transfer.problem);
  constexpr long kNothingThere = 416;  // which libcurl may take for success
  long status = 0;
  (library.curl_easy_getinfo)(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (resumed && (result == CURLE_RANGE_ERROR || status == kNothingThere)) return false;
  if (result == CURLE_OK) return true;
  std::string cause = reason[0] != '\0' ? reason.data() : library.curl_easy_strerror(result);
  if (arrival.bytes() > 0) cause += fmt::format("; {} bytes have come", arrival.bytes());
  throw RuntimeError(fmt::format("cannot fetch {}", url), cause, wanted.otherwise);
}

}  // namespace

bool IsThere(const WantedFile& wanted) {
  std::error_code error;
  if (!fs::is_regular_file(wanted.path, error)) return false;
  if (fs::file_size(wanted.path, error) > static_cast<uintmax_t>(wanted.bytes)) return false;
  return Sha256Hex(AsText(MappedFile(wanted.path).bytes())) == wanted.sha256;
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
  if (bytes.size() > static_cast<uint64_t>(wanted.bytes)) {  // perhaps without an end
    ThrowOther(from.string(), wanted,
               fmt::format("it has {} bytes, and {} were published", bytes.size(), wanted.bytes));
  }
  CheckHash(from.string(), wanted, static_cast<int64_t>(bytes.size()), Sha256Hex(bytes));
  WriteFileAtomically(wanted.path, bytes);
}

}  // namespace folio
