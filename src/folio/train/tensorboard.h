#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "folio/io/posix.h"

namespace folio {

// Writes an event file that TensorBoard reads: records (length, masked CRC-32C of it, bytes, masked
// CRC-32C of them; TensorFlow's record writer) of Event messages in protocol buffers' encoding
// (TensorFlow's event.proto and summary.proto). Scalars and texts.
class TensorBoardWriter {
 public:
  // Creates DIR/events.out.tfevents.<seconds>.<host>.<pid>.<n>, whose name sorts after those of all
  // event files there, and DIR. Throws a kRuntime Error if it cannot be written.
  explicit TensorBoardWriter(const std::filesystem::path& dir);

  // Tries to flush.
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;

  // Makes readers drop what the files before this one say about `step` and later ones.
  void Restart(int64_t step, double wall_time);
  // `wall_time` in seconds since 1970. Values are stored as float.
  void Scalar(std::string_view tag, int64_t step, double value, double wall_time);
  // TensorBoard shows `text` as Markdown.
  void Text(std::string_view tag, int64_t step, std::string_view text, double wall_time);
  // Writes everything so far, so that other programs see it.
  void Flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void Record(std::string_view message);

  std::filesystem::path path_;
  internal::FileDescriptor file_{-1};
  std::string waiting_;  // what is not written yet
};

}  // namespace folio
