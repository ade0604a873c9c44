#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "folio/io/checksums.h"
#include "tests/kit/answering_server.h"

namespace folio {

// A hub with one repository, "some/model", whose large files are on a second server.
class TestHub {
 public:
  struct File {
    std::string bytes;
    bool large = false;
    std::string listed_hash = {};  // in place of the right one
  };

  using Files = std::map<std::string, File>;

  explicit TestHub(Files files) : files_(std::move(files)) {}

  const std::string& url() const { return hub_.url(); }
  std::string asked_of_hub() const { return hub_.requests(); }
  std::string asked_of_store() const { return store_.requests(); }
  // From now on the store sends at most this many bytes of each large file.
  void CutAt(size_t bytes) { cut_ = bytes; }
  // Adds an entry to the list beside those of the files.
  void AddEntry(std::string json) { more_ += "," + std::move(json); }
  // The status of every answer about a file's bytes.
  void Refuse(int status) { refusal_ = status; }

  static std::string Ok(std::string_view body, std::string_view headers = "") {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), headers,
                       body);
  }
  static std::string Failure(int status) {
    return fmt::format("HTTP/1.1 {} No\r\nContent-Length: 0\r\n\r\n", status);
  }

 private:
  static std::string PathOf(const std::string& request) {
    const size_t begin = request.find(' ') + 1;
    return request.substr(begin, request.find(' ', begin) - begin);
  }

  std::string Entry(const std::string& path, const File& file) const {
    const std::string hash = file.listed_hash.empty() ? Sha256Hex(file.bytes) : file.listed_hash;
    // A small file has no hash: git's are tested separately.
    const std::string lfs =
        file.large ? fmt::format(R"(,"lfs":{{"oid":"{}","size":{},"pointerSize":134}})", hash,
                                 file.bytes.size())
                   : "";
    return fmt::format(R"({{"type":"file","path":"{}","size":{}{}}})", path, file.bytes.size(),
                       lfs);
  }

  // Two pages: the first file, and the rest.
  std::string List(bool second) const {
    std::string first_page, rest;
    for (const auto& [path, file] : files_) {
      std::string& page = first_page.empty() ? first_page : rest;
      page += (page.empty() ? "" : ",") + Entry(path, file);
    }
    if (second)
      return Ok("[" + rest + (rest.empty() && !more_.empty() ? more_.substr(1) : more_) + "]");
    return Ok("[" + first_page + "]",
              fmt::format("Link: <{}{}&cursor=2>; rel=\"next\"\r\n", hub_.url(), kList));
  }

  std::string AnswerOfHub(const std::string& request) {
    const std::string path = PathOf(request), files = "/some/model/resolve/main/";
    if (path == kList) return List(/*second=*/false);
    if (path == std::string(kList) + "&cursor=2") return List(/*second=*/true);
    if (!path.starts_with(files)) return Failure(404);
    if (refusal_ != 0) return Failure(refusal_);
    const auto found = files_.find(path.substr(files.size()));
    if (found == files_.end()) return Failure(404);
    if (!found->second.large) return Ok(found->second.bytes);
    return fmt::format("HTTP/1.1 302 Found\r\nLocation: {}/{}\r\nContent-Length: 0\r\n\r\n",
                       store_.url(), found->first);
  }

  std::string AnswerOfStore(const std::string& request) {
    const std::string& bytes = files_.at(PathOf(request).substr(1)).bytes;
    const size_t range = request.find("Range: bytes=");
    const size_t from = range == request.npos ? 0 : std::stoul(request.substr(range + 13));
    const std::string head =
        from == 0 ? "HTTP/1.1 200 OK\r\n"
                  : fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n",
                                from, bytes.size() - 1, bytes.size());
    return fmt::format("{}Content-Length: {}\r\n\r\n{}", head, bytes.size() - from,
                       bytes.substr(from, cut_));
  }

  static constexpr std::string_view kList = "/api/models/some/model/tree/main?recursive=true";

  const Files files_;
  std::string more_;
  size_t cut_ = std::string::npos;
  int refusal_ = 0;
  AnsweringServer store_{[this](const std::string& request) { return AnswerOfStore(request); }};
  AnsweringServer hub_{[this](const std::string& request) { return AnswerOfHub(request); }};
};

}  // namespace folio
