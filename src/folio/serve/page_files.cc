#include "folio/serve/page_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

#include "folio/base/strings.h"
#include "folio/io/decompress.h"

namespace folio {
namespace {

// No script, style, picture or connection of any other origin, nor any that stands in the page.
constexpr char kPolicy[] =
    "default-src 'self'; img-src 'self' blob: data:; style-src 'self'; object-src 'none'; "
    "frame-ancestors 'none'; base-uri 'none'";

std::string Unpacked(const PageFile& file) {
  size_t at = 0;
  const ReadBytes unpack = Decompress(
      [&](std::string& out, size_t wanted) {
        const std::string_view piece = file.gzip.substr(at, wanted);
        out += piece;
        at += piece.size();
        return piece.size();
      },
      Compression::kGzip, std::string(file.path));
  constexpr size_t kPiece = 64 << 10;
  std::string text;
  while (unpack(text, kPiece) > 0) {
  }
  return text;
}

// "gzip;q=0.5" as "gzip" and whether its weight is not 0.
std::pair<std::string, bool> CodingOf(std::string_view item) {
  std::string plain = LowerAscii(item);
  std::erase_if(plain, [](unsigned char c) { return std::isspace(c) != 0; });
  const std::string coding = plain.substr(0, plain.find(';'));
  const size_t weight = plain.find(";q=");
  const bool wanted =
      weight == plain.npos || plain.find_first_of("123456789", weight) != plain.npos;
  return {coding, wanted};
}

}  // namespace

const PageFile* FindPageFile(std::string_view path) {
  if (path == "/") path = "/index.html";
  const std::span<const PageFile> files = PageFiles();
  const auto found = std::ranges::find(files, path, &PageFile::path);
  return found == files.end() ? nullptr : &*found;
}

bool AcceptsGzip(std::string_view accepted) {
  bool any = false;
  for (const std::string& item : Split(accepted, ',')) {
    const auto [coding, wanted] = CodingOf(item);
    if (coding == "gzip" || coding == "x-gzip") return wanted;
    if (coding == "*") any = wanted;
  }
  return any;
}

HttpReply Tagged(HttpReply reply, const std::string& tag, const HttpRequest& request) {
  const std::string quoted = '"' + tag + '"';
  // A list of tags, weak or not; ours have no comma.
  const std::string known = request.header("If-None-Match");
  reply.headers.emplace_back("ETag", quoted);
  reply.headers.emplace_back("Cache-Control", "no-cache");
  if (known == "*" || known.find(quoted) != std::string::npos) {
    reply.status = 304;
    reply.body.clear();
  }
  return reply;
}

HttpReply AnswerPageFile(const PageFile& file, const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpReply reply = ApiError(405, "only GET is allowed for the page").reply();
    reply.headers.emplace_back("Allow", "GET");
    return reply;
  }
  const bool packed = AcceptsGzip(request.header("Accept-Encoding"));
  HttpReply reply{.type = std::string(file.type),
                  .body = packed ? std::string(file.gzip) : Unpacked(file)};
  if (packed) reply.headers.emplace_back("Content-Encoding", "gzip");
  reply.headers.emplace_back("Vary", "Accept-Encoding");
  reply.headers.emplace_back("Content-Security-Policy", kPolicy);
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  return Tagged(std::move(reply), std::string(file.tag) + (packed ? "-gzip" : ""), request);
}

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

void PageNumbers::Append(const char* name, const char* dtype, const std::vector<int64_t>& shape,
                         std::string_view bytes) {
  const size_t begin = payload_.size();
  payload_ += bytes;
  tensors_[name] = {{"dtype", dtype},
                    {"shape", Json(shape)},
                    {"data_offsets", Json::array({begin, payload_.size()})}};
}

std::string PageNumbers::bytes() const {
  constexpr size_t kAlign = 8;
  Json metadata = Json::object(), header = Json::object();
  for (const auto& [key, value] : about_.items()) metadata[key] = value.dump();
  header["__metadata__"] = std::move(metadata);
  header.update(tensors_);
  std::string text = header.dump();
  text.resize((text.size() + kAlign - 1) / kAlign * kAlign, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + payload_;
}

uint8_t SqrtByte(float p) {
  return p > 0 ? static_cast<uint8_t>(std::lround(255 * std::sqrt(std::min(p, 1.0F)))) : 0;
}

Json ShortNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::stod(fmt::format("{:.6g}", value));
}

}  // namespace folio
