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

// Bytes at the beginning of a file that say what it is.
inline constexpr size_t kTextHead = size_t{1} << 16;
// The longest line of JSON that is a document: it is held as a whole, and its text too.
inline constexpr int64_t kLongestDocument = int64_t{1} << 30;
// A line that becomes data has no more values than this, so that its memory follows its length.
inline constexpr size_t kMostValuesOfLine = size_t{1} << 22;
// The mark that may stand before UTF-8 and is no part of it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Returns whether a file is named for JSON lines: .jsonl or .ndjson in any case, with or without
// the ending of a compression behind it; or for tables: .csv or .tsv.
bool NamedForJsonLines(const std::string& path);
bool NamedForTables(const std::string& path);

struct TextKind;

// The text that a file is unpacked or converted to may be so many times as long as the file, once
// it is longer than kUnpackedBytes. Texts, logs and tables are compressed to a tenth or a
// hundredth.
inline constexpr int64_t kMostRatio = 250;
inline constexpr int64_t kUnpackedBytes = int64_t{1} << 27;

// Options of how texts that data is made from are read.
struct TextOptions {
  // The member of JSON lines, or the column of tables, that holds the document. "" is "text", or
  // the conversation where there is one.
  std::string field = {};
  bool raw = false;  // every file is a document of bytes, whatever it looks like

  const std::string& document() const {
    static const std::string usual = "text";
    return field.empty() ? usual : field;
  }
};

// A file is something else than a text.
class NotText : public Error {
 public:
  NotText(const std::string& name, const TextKind& kind);
  const std::string& looks_like() const { return looks_like_; }

 private:
  std::string looks_like_;
};

// The unit of the file that became a line of JSON lines.
enum class LineUnit { kLine, kValue, kRow };

// The form that a text was found in when its file was recognised.
struct TextForm {
  bool converted = false;           // its text is not to be found in its bytes
  bool json_lines = false;          // the text is a JSON object in each line
  LineUnit unit = LineUnit::kLine;  // and its lines are those, values that had others, or rows
  bool conversations = false;       // and they are conversations, by the first
  // Which of several things in the first line was taken, for people; "" where there was one alone.
  std::string choice = {};
};

// A file, or standard input ("-"), as UTF-8: recognised by its first bytes, unpacked and converted
// as it comes, without a byte order mark. JSON of any layout comes as JSON lines, and so do tables
// with a header.
class TextStream {
 public:
  // `name` stands for it in messages, if it is not empty. Throws NotText, and a kInput Error where
  // it cannot be read.
  TextStream(const std::string& path, const TextOptions& options, std::string name = "");

  const TextForm& form() const { return form_; }
  // Returns whether the first document, or conversation, is there as far as can be seen; true where
  // it cannot be.
  bool begins_with_document() const;

  // Reads as ReadBytes does. Throws NotText where bytes show that this is none, and a kInput Error
  // for compressed streams and UTF-16 that are damaged, and beyond kMostRatio.
  size_t Read(std::string& out, size_t wanted);

  // The input from its beginning, where it is text, or bytes, as it is and can be read again; else
  // this stream, which must outlive it.
  ByteInput AsInput();

 private:
  // Takes one layer after the other off.
  void Peel();
  void Convert(const TextKind& kind);
  void LookForConversation();
  void Peek();
  void RequireRatio() const;
  // Returns the first of JSON lines that is not blank; empty where its end cannot be seen.
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

// Throws NotText where bytes at some places of a text file show that it is none. It must be one by
// its first bytes. `name` is what the error calls it.
void CheckPlaces(const std::string& path, const std::string& name);

// The document in a line of JSON: the string `field` of its object. Throws a kInput Error where
// there is none; `where` names the line, and is called for errors alone.
std::string TextOfJsonLine(std::string_view line, const std::string& field,
                           const std::function<std::string()>& where);

// Returns whether the line holds a document.
bool HoldsDocument(std::string_view line, const std::string& field);
// A value in a line of data. NaN and Infinity, which Python writes for what is missing, are null.
// Throws a kInput Error.
Json ParseDataLine(std::string_view line, const std::string& where);

// Blank lines are no documents.
bool IsBlankLine(std::string_view line);

// "a.jsonl:7", or for values that had other lines "a.json: value 7", and "a.csv: row 7".
std::string NameJsonLine(const std::string& path, int64_t number, LineUnit unit);

// Calls f with each line of `stream`, which has JSON lines, that is not blank, and what names it.
// Throws a kInput Error for one that is longer than `longest`.
void ForJsonLines(
    TextStream& stream, const std::string& path,
    const std::function<void(std::string_view line, const std::function<std::string()>& where)>& f,
    int64_t longest = kLongestLine);

// Calls f with the text of each line of `stream`, which has JSON lines, and the line's name.
void ForJsonDocuments(
    TextStream& stream, const std::string& path, const std::string& field,
    const std::function<void(const std::string& text, const std::string& where)>& f);

}  // namespace folio
