#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/byte_input.h"
#include "folio/io/decompress.h"
#include "folio/io/json.h"

namespace folio {

// The number of bytes at the beginning of a file by which its kind is recognised.
inline constexpr size_t kTextHead = size_t{1} << 16;
// The longest line of JSON that is a document: the whole line and its text are in memory.
inline constexpr int64_t kLongestDocument = int64_t{1} << 30;
// The most values in a line of data, so that its memory is in proportion to its length.
inline constexpr size_t kMostValuesOfLine = size_t{1} << 22;
// The mark that may precede UTF-8 and is not part of the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// These return true if a file is named for JSON lines (.jsonl or .ndjson) or for tables (.csv or
// .tsv), in any case, optionally with the ending of a compression behind it.
bool NamedForJsonLines(const std::string& path);
bool NamedForTables(const std::string& path);

struct TextKind;

// The most times that an unpacked or converted text longer than kUnpackedBytes may be as long as
// its file. Compression reduces texts, logs and tables to a tenth or a hundredth.
inline constexpr int64_t kMostRatio = 250;
inline constexpr int64_t kUnpackedBytes = int64_t{1} << 27;

// Options for reading the texts that data is made from.
struct TextOptions {
  // The member of JSON lines, or the column of tables, that holds the document. "" means the
  // conversation if there is one, else "text".
  std::string field = {};
  bool raw = false;  // every file is a document of bytes, whatever it contains

  const std::string& document() const {
    static const std::string usual = "text";
    return field.empty() ? usual : field;
  }
};

// The Error for a file that is not a text.
class NotText : public Error {
 public:
  NotText(const std::string& name, const TextKind& kind);
  const std::string& looks_like() const { return looks_like_; }

 private:
  std::string looks_like_;
};

// The part of a file that became one of the JSON lines.
enum class LineUnit { kLine, kValue, kRow };

// The form that a text was found in when its file was recognised.
struct TextForm {
  bool converted = false;           // its text is not simply its bytes
  bool json_lines = false;          // the text is a JSON object in each line
  LineUnit unit = LineUnit::kLine;  // what each of these lines was in the file
  bool conversations = false;       // they are conversations, according to the first
  // A sentence that says which of several parts of the first line is used; "" if there is only one.
  std::string choice = {};
};

// A file, or standard input ("-"), as UTF-8: recognised by its first bytes, unpacked and converted
// while it is read, without a byte order mark. JSON of any layout, and tables with a header, are
// read as JSON lines.
class TextStream {
 public:
  // `name` replaces the path in messages, if it is not empty. Throws NotText, and a kInput Error if
  // the file cannot be read.
  TextStream(const std::string& path, const TextOptions& options, std::string name = "");

  const TextForm& form() const { return form_; }
  // Returns false if the first line is certainly neither a document nor a conversation.
  bool begins_with_document() const;

  // Reads like ReadBytes. Throws NotText if the bytes show that this is no text, and a kInput Error
  // for damaged compressed streams and UTF-16, and for a text that exceeds kMostRatio.
  size_t Read(std::string& out, size_t wanted);

  // The input from its beginning, if it is an unconverted text that can be read again; else an
  // input that reads this stream, which must outlive it.
  ByteInput AsInput();

 private:
  // Removes one layer of compression or conversion after the other.
  void Peel();
  void Convert(const TextKind& kind);
  void LookForConversation();
  void Peek();
  void RequireRatio() const;
  // Returns the first of the JSON lines that is not blank; empty if its end is not in head_.
  std::string_view FirstLine() const;

  std::string name_;
  TextOptions options_;
  bool lines_by_name_, table_by_name_;
  std::shared_ptr<ByteInput> input_;
  ReadBytes read_;
  std::shared_ptr<int64_t> taken_ = std::make_shared<int64_t>(0);  // bytes of input_
  int64_t made_ = 0;                                               // bytes that Read gave
  std::string head_;                                               // read already
  bool head_ended_ = false;                                        // that is all
  size_t given_ = 0;                                               // of head_
  bool mark_ = false;                                              // it had a byte order mark
  TextForm form_;
};

// Throws NotText if bytes at some places of a file, whose first bytes are text, show that it is no
// text. Errors call it `name`.
void CheckPlaces(const std::string& path, const std::string& name);

// The document in a line of JSON: the string `field` of its object. Throws a kInput Error if there
// is none; `where` returns the name of the line, and is called only for errors.
std::string TextOfJsonLine(std::string_view line, const std::string& field,
                           const std::function<std::string()>& where);

// The value in a line of data. NaN and Infinity, which Python writes for missing numbers, are null.
// Throws a kInput Error.
Json ParseDataLine(std::string_view line, const std::string& where);

// Returns true for lines of white space, which are not documents.
bool IsBlankLine(std::string_view line);

// "a.jsonl:7", "a.json: value 7" or "a.csv: row 7".
std::string NameJsonLine(const std::string& path, int64_t number, LineUnit unit);

// Calls f for each line that is not blank of `stream`, which has JSON lines; where() returns the
// line's name. Throws a kInput Error for a line longer than `longest`.
void ForJsonLines(
    TextStream& stream, const std::string& path,
    const std::function<void(std::string_view line, const std::function<std::string()>& where)>& f,
    int64_t longest = kLongestLine);

// Calls f with the text of each line of `stream`, which has JSON lines, and the line's name.
void ForJsonDocuments(
    TextStream& stream, const std::string& path, const std::string& field,
    const std::function<void(const std::string& text, const std::string& where)>& f);

}  // namespace folio
