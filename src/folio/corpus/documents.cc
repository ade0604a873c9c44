#include "folio/corpus/documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "folio/base/error.h"
#include "folio/io/json_parse.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

constexpr char kLineHelp[] = "each line must be a JSON object such as {\"text\": \"...\"}";

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Error BadLine(const PrepareSource& source, int64_t offset, const char* what, std::string cause) {
  return InputError(fmt::format("{}:{}: {}", source.path(), source.PositionOf(offset).line, what),
                    std::move(cause), kLineHelp);
}

std::string TextOfLine(const PrepareSource& source, int64_t offset, std::string_view line) {
  nlohmann::ordered_json json;
  try {
    json = ParseJson(line, "line");
  } catch (const Error& error) {
    throw BadLine(source, offset, "not valid JSON", error.cause());
  }
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) {
    throw BadLine(source, offset, "no document", "there is no \"text\" that is a string");
  }
  return std::move(json["text"].get_ref<std::string&>());
}

}  // namespace

size_t FindCharacter(std::string_view text, int64_t index) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (BeginsCharacter(text[at]) && index-- == 0) return at;
  }
  return text.size();
}

void ForDocuments(const PrepareSource& source, const PreparePiece& piece, std::string_view bytes,
                  const std::function<void(const PrepareDocument&)>& f) {
  if (!source.json_lines()) {
    f({bytes, piece.begin.offset, piece.end, piece.begin.offset == 0});
    return;
  }
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
    const std::string_view line = bytes.substr(at, end - at);
    const int64_t offset = piece.begin.offset + static_cast<int64_t>(at);
    if (!IsBlank(line)) {
      const std::string whole = TextOfLine(source, offset, line);
      const std::string_view text =
          std::string_view(whole).substr(0, static_cast<size_t>(piece.text_end));  // -1: all
      const size_t begin = std::min(text.size(), static_cast<size_t>(piece.text_begin));
      f({text.substr(begin), offset, piece.begin.offset + static_cast<int64_t>(end), begin == 0,
         text.substr(0, begin)});
    }
    at = end;
  }
}

}  // namespace folio
