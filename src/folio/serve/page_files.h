#pragma once

#include <span>
#include <string>
#include <string_view>

#include "folio/serve/http.h"

namespace folio {

// A file of the page, in the program.
struct PageFile {
  std::string_view path;  // "/app.js"
  std::string_view type;
  std::string_view tag;   // the hash of its bytes
  std::string_view gzip;  // the file, compressed
};

// All of them; none in a program without its page (FOLIO_WEB).
std::span<const PageFile> PageFiles();
// The one that is at an address, "/" being that of /index.html; null if there is none.
const PageFile* FindPageFile(std::string_view path);

// Answers with the file as it is, where the client takes gzip, else unpacked.
HttpReply AnswerPageFile(const PageFile& file, const HttpRequest& request);

// A reply that clients may keep as long as `tag` stays: 304 without a body where the request has
// it.
HttpReply Tagged(HttpReply reply, const std::string& tag, const HttpRequest& request);

// Returns true where a request's Accept-Encoding takes gzip.
bool AcceptsGzip(std::string_view accepted);

}  // namespace folio
