#include "folio/io/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

constexpr char kRevision[] = "main";
constexpr size_t kMaxName = 96;  // for an owner or a repository

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The host of an address, with its port if it has one.
std::string_view HostOf(std::string_view address) {
  address.remove_prefix(std::min(address.size(), address.find("://") + 3));
  return address.substr(0, address.find_first_of("/?#"));
}

bool IsLoopback(std::string_view host) {
  const std::string_view name = host.substr(0, host.rfind(':'));
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

// Percent-encodes the characters that a URL path cannot contain.
std::string Encoded(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (IsAlphanumeric(c) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

[[noreturn]] void ThrowUnsound(const std::string& repository, std::string cause) {
  throw InputError(fmt::format("the file list of {} is not valid", repository), std::move(cause),
                   "nothing was downloaded");
}

// Throws unless a path stays below the repository, on every system.
void RequireInside(const std::string& repository, const std::string& path) {
  const auto is_name = [](const std::string& part) {
    return IsFileName(part) && part.size() < 256 &&
           std::ranges::none_of(part, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  };
  if (std::ranges::all_of(Split(path, '/'), is_name)) return;
  ThrowUnsound(repository, fmt::format("{} is not a relative file name", Json(path).dump()));
}

const std::string* TextOf(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? &value->text() : nullptr;
}

// The hash of a file: SHA-256 for large-file storage, else git's.
std::string ListedHash(const Json& entry) {
  const Json* large = entry.find("lfs");
  const bool stored = large != nullptr && large->is_object();
  const std::string* hash = TextOf(stored ? *large : entry, "oid");
  if (hash == nullptr) return "";
  const bool sound = hash->size() == (stored ? 64u : 40u) &&
                     hash->find_first_not_of("0123456789abcdef") == hash->npos;
  return sound ? *hash : "";
}

std::optional<HubFile> FileOf(const std::string& repository, const Json& entry) {
  constexpr int64_t kMostBytes = int64_t{1} << 50;
  if (!entry.is_object()) ThrowUnsound(repository, "an entry is not an object");
  const std::string *type = TextOf(entry, "type"), *path = TextOf(entry, "path");
  if (path == nullptr) ThrowUnsound(repository, "an entry has no path");
  RequireInside(repository, *path);
  if (type != nullptr && *type != "file") return {};
  const Json* size = entry.find("size");
  const bool sized = size != nullptr && size->is_number_unsigned() &&
                     size->get<uint64_t>() <= static_cast<uint64_t>(kMostBytes);
  if (!sized) ThrowUnsound(repository, fmt::format("{} has no size", *path));
  return HubFile{.path = *path, .bytes = size->get<int64_t>(), .hash = ListedHash(entry)};
}

}  // namespace

Hub Hub::OfEnvironment() {
  Hub hub;
  if (const std::string endpoint = Variable("HF_ENDPOINT"); !endpoint.empty()) {
    hub.endpoint = endpoint;
    while (hub.endpoint.ends_with('/')) hub.endpoint.pop_back();
  }
  const bool clear = hub.endpoint.starts_with("http://");
  if ((!clear && !hub.endpoint.starts_with("https://")) || HostOf(hub.endpoint).empty()) {
    throw UsageError(fmt::format("HF_ENDPOINT: '{}' is not a valid address", hub.endpoint), "",
                     "expected an address that begins with https://");
  }
  if (clear) hub.limits.schemes = hub.limits.redirect_schemes = "http,https";
  hub.limits.token = Variable("HF_TOKEN");
  hub.limits.denied =
      "accept the model's conditions on its page, and set HF_TOKEN to your access token";
  if (hub.limits.token.empty()) return hub;
  if (!std::ranges::all_of(hub.limits.token, [](char c) { return c > ' ' && c < 127; })) {
    throw UsageError("HF_TOKEN is not an access token", "it contains invalid characters");
  }
  if (clear && !IsLoopback(HostOf(hub.endpoint))) {
    throw UsageError("HF_TOKEN would be sent unencrypted",
                     fmt::format("HF_ENDPOINT is {}", hub.endpoint),
                     "use an address that begins with https://, or unset HF_TOKEN");
  }
  return hub;
}

bool IsRepositoryName(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return false;
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.size() <= kMaxName && IsAlphanumeric(part.front()) &&
           part.find("..") == part.npos && std::ranges::all_of(part, [](char c) {
             return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
           });
  };
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

std::vector<HubFile> ListRepository(const Hub& hub, const std::string& repository) {
  constexpr int kMostPages = 100;
  constexpr size_t kMostFiles = 20'000;
  constexpr int64_t kMostBytes = int64_t{16} << 20;  // for one page
  std::vector<HubFile> files;
  std::string address =
      fmt::format("{}/api/models/{}/tree/{}?recursive=true", hub.endpoint, repository, kRevision);
  for (int page = 0; !address.empty(); ++page) {
    if (page == kMostPages || files.size() > kMostFiles) {
      ThrowUnsound(repository,
                   fmt::format("it has more than {} files or {} pages", kMostFiles, kMostPages));
    }
    const FetchedPage fetched = FetchPage(address, kMostBytes, hub.limits);
    if (fetched.status == 404) {
      throw InputError(fmt::format("there is no repository {}", repository),
                       fmt::format("{} does not have it", hub.endpoint), "check the spelling");
    }
    const Json list = ParseJson(fetched.body, address);
    if (!list.is_array()) ThrowUnsound(repository, "it is not a list");
    for (const Json& entry : list) {
      if (std::optional<HubFile> file = FileOf(repository, entry)) files.push_back(*file);
    }
    if (!fetched.next.empty() && !fetched.next.starts_with(hub.endpoint + "/")) {
      ThrowUnsound(repository, fmt::format("its next page is on another server: {}", fetched.next));
    }
    address = fetched.next;
  }
  return files;
}

std::string AddressOf(const Hub& hub, const std::string& repository, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", hub.endpoint, repository, kRevision, Encoded(path));
}

}  // namespace folio
