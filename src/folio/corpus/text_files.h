#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "folio/base/utf8.h"
#include "folio/corpus/text_stream.h"

namespace folio {

// A file that data is made from, as it was found.
struct TextInput {
  std::string path;    // as it was named; "-" is standard input
  std::string file;    // where its bytes are
  bool once = false;   // it can be read only once: standard input, a pipe
  TextForm form = {};  // of what can be read once only from the reading on
  int64_t bytes = 0;
  int64_t modified = 0;  // time of the last change, in the system's units
};

// Throws NotText, and a kInput Error if there is no such file, or if it cannot be read.
TextInput FindTextInput(const std::string& path, const TextOptions& options,
                        const std::string& standard_input = "");

// The text of a file that data is made from: one document, or one in each line of JSON. A byte
// order mark at its beginning is no part of it, here and in all counts. Opened anew for each piece,
// so that there may be any number.
class PrepareSource {
 public:
  // Its bytes are the text.
  explicit PrepareSource(const std::string& path, const TextOptions& options = {});
  // `text` is the file that holds what the input was converted to.
  PrepareSource(TextInput input, const TextOptions& options, std::string text);

  const TextInput& input() const { return input_; }
  const std::string& text_file() const { return text_; }  // where the text is
  const std::string& path() const { return input_.path; }
  int64_t bytes() const { return bytes_; }
  bool marked() const { return mark_ > 0; }  // had a byte order mark
  bool json_lines() const { return input_.form.json_lines; }
  const std::string& field() const { return field_; }  // of JSON lines
  // The bytes of the file as it was named, before any conversion.
  int64_t given_bytes() const { return input_.form.converted ? input_.bytes : bytes_; }

  // Bytes [begin, end), which replace what is in `out`. Throws a kInput Error if they cannot be
  // read or are no longer there.
  void Read(int64_t begin, int64_t end, std::string& out) const;
  // Line and column of a byte; reads all before it.
  TextPosition PositionOf(int64_t byte) const;
  // The line of JSON at a byte, for messages.
  std::string NameLine(int64_t byte) const;
  // Throws a kInput Error if length or time of the file are not what they were.
  void CheckUnchanged() const;

 private:
  TextInput input_;
  std::string field_;
  std::string text_;   // the file to read
  int64_t mark_ = 0;   // bytes before those that count
  int64_t bytes_ = 0;  // behind the mark
};

// Writes the text of an input that is converted into the new file `to`; progress(bytes) says how
// long that is so far, and may throw. Throws what TextStream throws, and a kRuntime Error where
// there is no room: before the disk is full to the last byte.
PrepareSource ConvertSource(TextInput input, const TextOptions& options,
                            const std::filesystem::path& to,
                            const std::function<void(int64_t bytes)>& progress);

// The Error of a text that another program writes to.
Error ChangedWhileRead(const std::string& path);

// Says of all texts at once which have lines that end in \r\n near their beginning, as Windows
// writes them; "" if none has.
std::string LineEndsNote(std::span<const PrepareSource> sources);

// Writes what standard input gives, as it is, into a new file.
void SaveStandardInput(const std::string& to);

// The files to make data of.
struct TextFiles {
  std::vector<std::string> files;
  std::string left_out;  // what directories hold that is no text, in one line; "" if nothing
};

// Replaces each path that is a directory by the files below it that are texts, in the order of
// their names; what is hidden is passed over, and data sets too, with whatever is below them.
// Throws a kInput Error for a directory without any, and for files below it that are damaged.
TextFiles FindTextFiles(const std::vector<std::string>& paths, const TextOptions& options);

// Returns how many bytes of text the files have together; `enough` or more where it is that many,
// which saves unpacking what is compressed to the end. -1 where one of them can be read only once.
int64_t TextBytes(const std::vector<std::string>& files, const TextOptions& options,
                  int64_t enough);

}  // namespace folio
