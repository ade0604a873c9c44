#include "folio/apps/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/utf8.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;

// Refuses to replace what no earlier PrepareDataset wrote.
void CheckOut(const PrepareOptions& options) {
  std::error_code ignored;
  const fs::path out(options.out);
  if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored))) {
    return;
  }
  const std::string help = "name another directory with --out";
  if (!fs::is_directory(out, ignored)) {
    throw UsageError(fmt::format("{}: exists and is not a directory", options.out), "", help);
  }
  const std::array<std::string_view, 5> ours = {kTrainFile, kValFile, kDatasetFile, kTokenizerFile,
                                                kTokenizerConfigFile};
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (std::find(ours.begin(), ours.end(), name) == ours.end()) {
      throw UsageError(fmt::format("{}: not replaced", options.out),
                       fmt::format("it holds {}, which is no part of a data set", name), help);
    }
  }
  if (!options.overwrite) {
    throw UsageError(fmt::format("{}: already holds a data set", options.out), "",
                     help + ", or replace the data set with --overwrite");
  }
}

std::vector<DatasetInfo::Source> Measure(const std::vector<std::string>& files) {
  std::vector<DatasetInfo::Source> sources;
  for (const std::string& file : files) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (!fs::exists(status)) {
      throw InputError(fmt::format("{}: no such file", file), error ? error.message() : "",
                       "name a text file");
    }
    if (!fs::is_regular_file(status)) {
      throw InputError(fmt::format("{}: not a regular file", file),
                       "the data is read more than once, so it must be a file on disk",
                       "name a text file");
    }
    sources.push_back({file, static_cast<int64_t>(fs::file_size(file))});
  }
  return sources;
}

// Reads all sources and reports progress over all passes.
class Reading {
 public:
  Reading(const std::vector<DatasetInfo::Source>& sources, int passes,
          const PrepareProgress& progress)
      : progress_(progress) {
    for (const DatasetInfo::Source& source : sources) total_ += source.bytes * passes;
  }

  // Calls f(piece) with pieces of at most kPieceBytes.
  template <class F>
  void Read(const DatasetInfo::Source& source, F&& f) {
    std::ifstream stream(source.path, std::ios::binary);
    if (!stream) {
      throw InputError(fmt::format("{}: cannot be opened", source.path),
                       std::system_category().message(errno), "check its permissions");
    }
    int64_t bytes = 0;
    while (stream) {
      stream.read(piece_.data(), static_cast<std::streamsize>(piece_.size()));
      const std::string_view piece(piece_.data(), static_cast<size_t>(stream.gcount()));
      if (piece.empty()) break;
      bytes += static_cast<int64_t>(piece.size());
      f(piece);
      done_ += static_cast<int64_t>(piece.size());
      if (progress_) progress_(done_, total_);
    }
    if (bytes != source.bytes || stream.bad()) {
      throw InputError(fmt::format("{}: changed or failed while it was read", source.path),
                       fmt::format("{} bytes expected, {} read", source.bytes, bytes),
                       "try again when nothing writes to it");
    }
  }

 private:
  const PrepareProgress& progress_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  std::string piece_ = std::string(kPieceBytes, '\0');
};

// Sends the first `train_units` tokens to train.bin and the others to val.bin.
class Splitter {
 public:
  Splitter(const fs::path& dir, TokenWidth width, int64_t train_units)
      : train_((dir / kTrainFile).string(), width),
        val_((dir / kValFile).string(), width),
        left_(train_units) {}

  void Put(std::span<const int32_t> ids) {
    const auto to_train =
        static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(ids.size())));
    train_.Append(ids.first(to_train));
    val_.Append(ids.subspan(to_train));
    left_ -= static_cast<int64_t>(to_train);
  }

  // A token that does not count as a unit of the text.
  void PutBetween(int32_t id) { (left_ > 0 ? train_ : val_).Append({&id, 1}); }

  void Finish(DatasetInfo& info) {
    train_.Finish();
    val_.Finish();
    info.train_tokens = train_.tokens();
    info.val_tokens = val_.tokens();
  }

 private:
  TokenWriter train_;
  TokenWriter val_;
  int64_t left_;
};

// Encodes a text that comes in pieces cut anywhere.
class PieceEncoder {
 public:
  PieceEncoder(const Tokenizer& tokenizer, const std::string& where, Splitter& out)
      : tokenizer_(tokenizer), where_(where), out_(out) {}

  void Add(std::string_view piece) {
    text_.append(piece);
    Encode(CompleteUtf8Prefix(text_));
  }
  void Finish() { Encode(text_.size()); }

 private:
  void Encode(size_t length) {
    const std::string_view ready = std::string_view(text_).substr(0, length);
    ids_.clear();
    const size_t done = tokenizer_.EncodePrefix(ready, ids_);
    if (done < length) throw CannotEncode(tokenizer_, ready, done, position_, where_);
    out_.Put(ids_);
    position_.Advance(ready);
    text_.erase(0, length);
  }

  const Tokenizer& tokenizer_;
  const std::string& where_;
  Splitter& out_;
  TextPosition position_;
  std::string text_;
  std::vector<int32_t> ids_;
};

// The tokenizer of the options, and how many units (characters or bytes) the text has.
std::unique_ptr<Tokenizer> MakeTokenizer(const PrepareOptions& options,
                                         const std::vector<DatasetInfo::Source>& sources,
                                         Reading& reading, int64_t& units) {
  units = 0;
  if (options.tokenizer == "bytes") {
    for (const DatasetInfo::Source& source : sources) units += source.bytes;
    return std::make_unique<ByteTokenizer>();
  }
  CharSetBuilder builder;
  for (const DatasetInfo::Source& source : sources) {
    builder.BeginText(source.path);
    reading.Read(source, [&](std::string_view piece) { builder.Add(piece); });
    builder.EndText();
  }
  units = builder.characters();
  return builder.Build();
}

void CheckOptions(const PrepareOptions& options) {
  if (options.files.empty()) throw UsageError("no files to prepare", "", "name a text file");
  if (options.out.empty()) throw UsageError("no directory to write to", "", "name it with --out");
  if (options.tokenizer != "char" && options.tokenizer != "bytes") {
    throw UsageError(fmt::format("--tokenizer: unknown tokenizer '{}'", options.tokenizer),
                     "expected char or bytes", "use --tokenizer char");
  }
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw UsageError(fmt::format("--val-fraction: {} is out of range", options.val_fraction),
                     "expected a number from 0 to below 1", "use --val-fraction 0.1");
  }
  CheckOut(options);
}

}  // namespace

DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareProgress& progress) {
  CheckOptions(options);
  DatasetInfo info;
  info.sources = Measure(options.files);
  Reading reading(info.sources, options.tokenizer == "char" ? 2 : 1, progress);
  int64_t units = 0;
  const std::unique_ptr<Tokenizer> tokenizer = MakeTokenizer(options, info.sources, reading, units);
  const auto train_units =
      static_cast<int64_t>(static_cast<double>(units) * (1 - options.val_fraction));
  if (train_units == 0) {
    throw InputError(fmt::format("{}: too short", options.files.front()),
                     fmt::format("of {} tokens none would be left to train on", units),
                     "use more text, or a smaller --val-fraction");
  }
  info.vocab_size = tokenizer->vocab_size();
  info.width = WidthForVocab(info.vocab_size);
  info.tokenizer_kind = tokenizer->kind();
  info.tokenizer_hash = tokenizer->hash();

  AtomicDirectory directory(options.out);
  Splitter splitter(directory.path(), info.width, train_units);
  for (size_t i = 0; i < info.sources.size(); ++i) {
    if (i > 0 && tokenizer->end_of_text()) splitter.PutBetween(*tokenizer->end_of_text());
    PieceEncoder encoder(*tokenizer, info.sources[i].path, splitter);
    reading.Read(info.sources[i], [&](std::string_view piece) { encoder.Add(piece); });
    encoder.Finish();
  }
  splitter.Finish(info);
  tokenizer->Save(directory.path().string());
  WriteDatasetInfo(directory.path().string(), info);
  directory.Commit();
  return info;
}

}  // namespace folio
