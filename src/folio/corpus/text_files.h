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

// A file that data is made from.
struct TextInput {
  std::string path;    // as given; "-" is standard input
  std::string file;    // where its bytes are
  bool once = false;   // it can be read only once: standard input, a pipe
  TextForm form = {};  // if it can be read only once: known only after reading
  int64_t bytes = 0;
  int64_t modified = 0;  // time of the last change, in the system's units
};

// Throws NotText, and a kInput Error if there is no such file, or if it cannot be read.
TextInput FindTextInput(const std::string& path, const TextOptions& options,
                        const std::string& standard_input = "");

// The text of a file that data is made from: one document, or one in each line of JSON. A byte
// order mark at its beginning is not part of it, nor counted. The file is opened again for each
// piece, so that there may be any number of sources.
class PrepareSource {
 public:
  // For a file whose bytes are the text.
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
  // The number of bytes of the given file, before any conversion.
  int64_t given_bytes() const { return input_.form.converted ? input_.bytes : bytes_; }

  // Replaces `out` by bytes [begin, end). Throws a kInput Error if they cannot be read or no longer
  // exist.
  void Read(int64_t begin, int64_t end, std::string& out) const;
  // The line and column of a byte; reads all bytes before it.
  TextPosition PositionOf(int64_t byte) const;
  // The line of JSON at a byte, for messages.
  std::string NameLine(int64_t byte) const;
  // Throws a kInput Error if the length or the time of the file has changed.
  void CheckUnchanged() const;

 private:
  TextInput input_;
  std::string field_;
  std::string text_;   // the file to read
  int64_t mark_ = 0;   // bytes of the byte order mark
  int64_t bytes_ = 0;  // behind the mark
};

// Converts an input and writes its text to the new file `to`; progress(bytes) gets its length so
// far, and may throw. Throws what TextStream throws, and a kRuntime Error before the disk is
// completely full.
PrepareSource ConvertSource(TextInput input, const TextOptions& options,
                            const std::filesystem::path& to,
                            const std::function<void(int64_t bytes)>& progress);

// The Error for a text to which another program is writing.
Error ChangedWhileRead(const std::string& path);

// A sentence about all texts whose first lines end in \r\n, as on Windows; "" if there are none.
std::string LineEndsNote(std::span<const PrepareSource> sources);

// Writes standard input unchanged into a new file.
void SaveStandardInput(const std::string& to);

// The files that data is to be made from.
struct TextFiles {
  std::vector<std::string> files;
  std::string left_out;  // a sentence about other files in directories; "" if there are none
};

// Replaces each directory among the paths by the texts below it, sorted by name; skips hidden
// files, and data sets with everything below them. Throws a kInput Error for a directory without
// texts, and for damaged files below it.
TextFiles FindTextFiles(const std::vector<std::string>& paths, const TextOptions& options);

// Returns the number of bytes of text in all files; -1 if one of them can be read only once. Stops
// unpacking at `enough` bytes: larger results may be too small.
int64_t TextBytes(const std::vector<std::string>& files, const TextOptions& options,
                  int64_t enough);

}  // namespace folio
