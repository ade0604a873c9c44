#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "folio/io/decompress.h"

namespace folio {

// Bytes at the beginning of a file that say what it is.
inline constexpr size_t kTextHead = size_t{1} << 16;
// The mark that may stand before UTF-8 and is no part of it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The kind of text that a file is taken for.
struct TextKind {
  enum class Form {
    kText,       // UTF-8, one document
    kJsonLines,  // a JSON object in each line, each a document
    kJson,       // JSON of another layout: an array, or values over several lines
    kUtf16Little,
    kUtf16Big,    // both behind a byte order mark
    kCompressed,  // in `compression`
    kOther,       // none of these
  };
  Form form = Form::kText;
  Compression compression = Compression::kGzip;
  std::string looks_like = {};  // of kOther: "a Parquet file"
  std::string help = {};        // and what to do
};

// Recognises a text by its first kTextHead bytes, or all if there are fewer. Where a file is not
// named for JSON lines
// (`lines_by_name`), its first line must be an object.
TextKind RecogniseText(std::string_view head, bool lines_by_name);

// Returns kOther where bytes from the middle of a text show that it is something else.
std::optional<TextKind> NoText(std::string_view sample);

// Returns whether a file is named for JSON lines: .jsonl or .ndjson in any case, with or without
// the ending of a compression behind it.
bool NamedForJsonLines(const std::string& path);

}  // namespace folio
