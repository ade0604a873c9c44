#include "folio/serve/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <string_view>
#include <utility>

#include "folio/base/strings.h"

namespace folio {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr size_t kMostLine = 8192;       // bytes of a request line
constexpr int kMostLines = 101;          // of a head: the request line and 100 fields
constexpr size_t kMostChunkLine = 1024;  // bytes of what stands between chunks

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Visible ASCII without a fragment, whose escapes are escapes.
bool IsTarget(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] <= 0x20 || text[i] >= 0x7F || text[i] == '#') return false;
    if (text[i] != '%') continue;
    if (i + 2 >= text.size() || HexDigit(text[i + 1]) < 0 || HexDigit(text[i + 2]) < 0) {
      return false;
    }
  }
  return true;
}

// REQUIRES: IsTarget
std::string Decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

// Fields holds headers and parameters, which a request is asked for by name.
struct RequestReader::Fields {
  std::vector<std::pair<std::string, std::string>> headers;
  std::string query;

  std::string Header(std::string_view name) const {
    std::string value;
    bool found = false;
    for (const auto& [key, one] : headers) {
      if (!SameName(key, name)) continue;
      if (std::exchange(found, true)) value += ", ";
      value += one;
    }
    return value;
  }
  std::string Parameter(std::string_view name) const {
    for (std::string_view rest = query; !rest.empty();) {
      const std::string_view pair = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
      const size_t equals = std::min(pair.find('='), pair.size());
      if (Decoded(pair.substr(0, equals), true) != name) continue;
      return Decoded(pair.substr(std::min(equals + 1, pair.size())), true);
    }
    return "";
  }
};

// Beast's parser, and what it lets through.
class RequestReader::Parser final : public http::basic_parser<true> {
 public:
  Parser(size_t head_bytes, size_t body_bytes) : body_bytes_(body_bytes) {
    header_limit(static_cast<uint32_t>(head_bytes + 1));
    body_limit(body_bytes);
    eager(true);
  }

  int status = 0;  // of a refusal
  std::string reason;
  bool http_1_1 = false, expects_continue = false;
  std::string method, path, body;
  std::shared_ptr<Fields> fields = std::make_shared<Fields>();

 private:
  void Refuse(error_code& error, int code, std::string why) {
    status = code;
    reason = std::move(why);
    error = http::error::bad_value;
  }

  void on_request_impl(http::verb, boost::beast::string_view verb, boost::beast::string_view target,
                       int version, error_code& error) override {
    static constexpr std::string_view kMethods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                                    "PATCH", "DELETE", "OPTIONS"};
    method = View(verb);
    http_1_1 = version == 11;
    if (std::ranges::count(kMethods, method) == 0) {
      return Refuse(error, 501, "unknown method");
    }
    std::string_view rest = View(target);
    if (!IsTarget(rest)) return Refuse(error, 400, "invalid characters in the address");
    if (rest == "*" && method == "OPTIONS") {
      path = rest;
      return;
    }
    // The absolute form, as to a proxy: its host counts.
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!SameName(rest.substr(0, scheme.size()), scheme)) continue;
      rest.remove_prefix(scheme.size());
      const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
      if (authority.empty() || authority.find('@') != authority.npos) {
        return Refuse(error, 400, "an address without a host");
      }
      authority_ = authority;
      rest.remove_prefix(authority.size());
      if (rest.empty() || rest[0] == '?') path = "/";
      break;
    }
    if (authority_.empty() && !rest.starts_with('/')) {
      return Refuse(error, 400, "an address that does not begin with '/'");
    }
    const size_t question = std::min(rest.find('?'), rest.size());
    if (path.empty()) path = Decoded(rest.substr(0, question), false);
    fields->query = rest.substr(std::min(question + 1, rest.size()));
  }

  void on_field_impl(http::field field, boost::beast::string_view name,
                     boost::beast::string_view text, error_code& error) override {
    if (head_done_) return Refuse(error, 400, "trailer fields");
    std::string_view value = View(text);
    if (field == http::field::host) {
      if (++hosts_ > 1) return Refuse(error, 400, "more than one Host");
      if (!authority_.empty()) value = authority_;
    } else if (field == http::field::content_length) {
      const bool digits = !value.empty() && value.find_first_not_of("0123456789") == value.npos;
      if (!digits) return Refuse(error, 400, "an invalid Content-Length");
      if (std::exchange(length_, true)) return Refuse(error, 400, "more than one Content-Length");
    } else if (field == http::field::transfer_encoding) {
      if (std::exchange(encoded_, true))
        return Refuse(error, 400, "more than one Transfer-Encoding");
      if (!http_1_1) return Refuse(error, 400, "a Transfer-Encoding in HTTP/1.0");
      if (!SameName(value, "chunked")) {
        return Refuse(error, 501, "a Transfer-Encoding other than chunked");
      }
    } else if (field == http::field::expect && http_1_1) {
      if (!SameName(value, "100-continue")) return Refuse(error, 417, "an unsupported Expect");
      expects_continue = true;
    }
    fields->headers.emplace_back(View(name), value);
  }

  void on_header_impl(error_code& error) override {
    head_done_ = true;
    if (http_1_1 && hosts_ == 0) return Refuse(error, 400, "no Host");
    if (hosts_ == 0 && !authority_.empty()) fields->headers.emplace_back("Host", authority_);
    if (length_ && encoded_) Refuse(error, 400, "a Content-Length with a Transfer-Encoding");
  }

  void on_chunk_header_impl(uint64_t /*size*/, boost::beast::string_view extensions,
                            error_code& error) override {
    if (!extensions.empty()) Refuse(error, 400, "a chunk extension");
  }

  size_t on_body_impl(boost::beast::string_view piece, error_code& error) override {
    if (body.size() + piece.size() > body_bytes_) {
      Refuse(error, 413, "the request is too large");
      return 0;
    }
    body.append(piece.data(), piece.size());
    return piece.size();
  }
  size_t on_chunk_body_impl(uint64_t /*remain*/, boost::beast::string_view piece,
                            error_code& error) override {
    return on_body_impl(piece, error);
  }

  void on_response_impl(int, boost::beast::string_view, int, error_code&) override {}
  // Its part that has not come takes no physical memory.
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override {
    if (length) body.reserve(std::min<size_t>(*length, body_bytes_));
  }
  void on_finish_impl(error_code&) override {}

  size_t body_bytes_;
  std::string authority_;
  int hosts_ = 0;
  bool length_ = false, encoded_ = false, head_done_ = false;
};

RequestReader::RequestReader(size_t head_bytes, size_t body_bytes)
    : head_bytes_(head_bytes), parser_(std::make_unique<Parser>(head_bytes, body_bytes)) {}

RequestReader::~RequestReader() = default;

RequestReader::State RequestReader::Refuse(int status, const std::string& reason) {
  status_ = status;
  reason_ = reason;
  return State::kRefused;
}

RequestReader::State RequestReader::Take(std::string& bytes) {
  if (status_ != 0) return State::kRefused;
  if (!head_done_) {
    if (const State state = TakeHead(bytes); state != State::kBody) return state;
  }
  error_code error;
  while (!parser_->is_done() && !bytes.empty()) {
    const size_t taken = parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    bytes.erase(0, taken);
    if (error == http::error::need_more) {
      if (bytes.size() > kMostChunkLine) return Refuse(400, "an invalid chunk");
      return State::kBody;
    }
    if (error) break;
  }
  if (error) {
    if (parser_->status != 0) return Refuse(parser_->status, parser_->reason);
    if (error == http::error::body_limit) return Refuse(413, "the request is too large");
    return Refuse(400, "an invalid chunked body");
  }
  return parser_->is_done() ? State::kRequest : State::kBody;
}

// Waits for the empty line. It refuses what no head may have before Beast sees it: bytes that are
// no text, lines that do not end with CRLF, and lines that go on in the next, which Beast would put
// together.
RequestReader::State RequestReader::TakeHead(std::string& bytes) {
  bool whole = false;
  for (; scanned_ < bytes.size() && !whole; ++scanned_) {
    const auto c = static_cast<unsigned char>(bytes[scanned_]);
    const bool behind_cr = scanned_ > begin_ && bytes[scanned_ - 1] == '\r';
    if (behind_cr != (c == '\n')) return Refuse(400, "a line that does not end with CRLF");
    if (c == '\n') {
      const bool empty = scanned_ - line_ == 1;
      line_ = scanned_ + 1;
      if (empty && lines_ == 0) {
        // One line break too many, as some send behind a body, is no harm.
        if (begin_ > 0) return Refuse(400, "no request");
        begin_ = line_;
      } else if (empty) {
        whole = true;
      } else if (++lines_ > kMostLines) {
        return Refuse(431, "too many header fields");
      }
      continue;
    }
    if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7F) {
      return Refuse(400, "a control character in the header");
    }
    if (scanned_ == line_ && lines_ > 0 && (c == ' ' || c == '\t')) {
      return Refuse(400, "a folded header field");
    }
    if (lines_ == 0 && scanned_ - line_ >= kMostLine) return Refuse(414, "the address is too long");
  }
  if (scanned_ > head_bytes_) {
    return lines_ == 0 ? Refuse(414, "the address is too long")
                       : Refuse(431, "the header fields are too large");
  }
  if (!whole) return State::kHead;
  error_code error;
  const size_t size = scanned_ - begin_;
  const size_t taken = parser_->put(boost::asio::const_buffer(bytes.data() + begin_, size), error);
  if (error) {
    if (parser_->status != 0) return Refuse(parser_->status, parser_->reason);
    if (error == http::error::body_limit) return Refuse(413, "the request is too large");
    const std::string_view line =
        std::string_view(bytes).substr(begin_, bytes.find('\r', begin_) - begin_);
    const bool other_version = error == http::error::bad_version && line.size() > 9 &&
                               std::ranges::count(line, ' ') == 2 &&
                               line.substr(line.size() - 9, 6) == " HTTP/" &&
                               std::isdigit(static_cast<unsigned char>(line.back())) != 0;
    if (other_version) return Refuse(505, "an HTTP version other than 1.0 or 1.1");
    return Refuse(400, "the request is not valid HTTP");
  }
  if (taken != size) return Refuse(400, "the request is not valid HTTP");
  bytes.erase(0, scanned_);
  head_done_ = true;
  return State::kBody;
}

bool RequestReader::expects_continue() const {
  return head_done_ && parser_->expects_continue;
}

size_t RequestReader::body_bytes() const {
  return parser_->body.size();
}

RequestReader::Whole RequestReader::TakeRequest() {
  const std::shared_ptr<const Fields> fields = parser_->fields;
  return {{.method = std::move(parser_->method),
           .path = std::move(parser_->path),
           .body = std::move(parser_->body),
           .client = "",
           .header = [fields](const std::string& name) { return fields->Header(name); },
           .parameter = [fields](const std::string& name) { return fields->Parameter(name); }},
          parser_->http_1_1,
          parser_->http_1_1 && parser_->keep_alive()};
}

}  // namespace folio
