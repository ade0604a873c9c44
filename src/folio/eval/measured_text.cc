#include "folio/eval/measured_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/json_documents.h"
#include "folio/corpus/text_files.h"
#include "folio/data/dataset.h"
#include "folio/eval/word_counter.h"
#include "folio/term/token_streams.h"

namespace folio {
namespace {

// Thrown where max_tokens have been read.
struct Enough {};

// The windows of all texts on their way to who looks at them.
class WindowReader {
 public:
  WindowReader(const Tokenizer* tokenizer, const ReadingOptions& options,
               const OnWindows& on_windows)
      : tokenizer_(tokenizer),
        options_(options),
        on_windows_(on_windows),
        cutter_(options.shape, [this](TextWindow window) { Queue(std::move(window)); }) {}

  void Begin(size_t text) {
    text_ = text;
    totals_ = {};
    predicted_ = 0;
  }
  // Adds tokens of the document that is being read. Throws Enough.
  void Add(std::span<const int32_t> ids) {
    const auto room = static_cast<size_t>(options_.max_tokens - read_);
    const bool enough = options_.max_tokens > 0 && ids.size() >= room;
    if (enough) ids = ids.first(room);
    read_ += std::ssize(ids);
    AddPieces(ids);
    if (enough) throw Enough();
  }
  // Returns true where too few tokens are left of max_tokens for another text to be predicted.
  bool enough() const { return options_.max_tokens > 0 && options_.max_tokens - read_ < 2; }
  void EndDocument() {
    cutter_.Finish();
    ++totals_.documents;
    totals_.tokens += document_tokens_;
    totals_.bytes += document_bytes_;
    if (tokenizer_ != nullptr) totals_.words += words_.Finish();
    ++document_;
    ends_.clear();
    ends_begin_ = document_tokens_ = document_bytes_ = 0;
  }
  // Throws a kInput Error if nothing of the text was predicted.
  const TextTotals& End(const std::string& name) const {
    if (predicted_ > 0) return totals_;
    if (totals_.tokens == 0) {
      throw InputError(fmt::format("{}: empty", name), {}, "give a text of at least two tokens");
    }
    throw InputError(fmt::format("{}: nothing to predict", name),
                     totals_.documents > 1 ? "each document is a single token" : "a single token",
                     "give a text of at least two tokens");
  }
  void Flush() {
    if (!queue_.empty()) on_windows_(std::exchange(queue_, {}));
    queued_ = 0;
  }

 private:
  void AddPieces(std::span<const int32_t> ids) {
    // In pieces, so that windows need not be waited for.
    constexpr size_t kPiece = 4096;
    for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), kPiece))) {
      const auto piece = ids.subspan(0, std::min(ids.size(), kPiece));
      for (const int32_t id : piece) {
        ends_.push_back(document_bytes_ += std::ssize(Bytes(id)));
        if (tokenizer_ != nullptr) words_.Add(Bytes(id));
      }
      document_tokens_ += std::ssize(piece);
      cutter_.Add(piece);
    }
  }

  std::string_view Bytes(int32_t id) const {
    return tokenizer_ != nullptr && id < tokenizer_->vocab_size() ? tokenizer_->TokenBytes(id)
                                                                  : std::string_view();
  }

  void Queue(TextWindow window) {
    // ends_[i]: behind token ends_begin_ + i of the document.
    const int64_t before = window.begin - 1 - ends_begin_;
    window.byte = ends_[static_cast<size_t>(before)];
    window.text = text_;
    window.document = document_;
    const int64_t last = before + std::ssize(window.targets);
    ends_.erase(ends_.begin(), ends_.begin() + last);
    ends_begin_ += last;
    predicted_ += std::ssize(window.targets);
    queued_ += std::ssize(window.ids);
    queue_.push_back(std::move(window));
    if (queued_ >= options_.positions) Flush();
  }

  const Tokenizer* tokenizer_;
  const ReadingOptions& options_;
  const OnWindows& on_windows_;
  WindowCutter cutter_;
  WordCounter words_;
  std::vector<TextWindow> queue_;
  int64_t queued_ = 0;  // tokens
  size_t text_ = 0;
  int64_t document_ = 0;  // of all texts
  int64_t document_tokens_ = 0, document_bytes_ = 0;
  std::vector<int64_t> ends_;  // bytes of the document up to each token
  int64_t ends_begin_ = 0;
  TextTotals totals_;
  int64_t predicted_ = 0;
  int64_t read_ = 0;  // tokens of all texts
};

void ReadDataSet(const std::string& dir, const Tokenizer* tokenizer, int64_t vocab_size,
                 WindowReader& reader) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  const Dataset data(dir, vocab_size);
  std::string hash = data.info().tokenizer_hash;
  if (hash.empty()) {
    const std::unique_ptr<Tokenizer> own = LoadDataTokenizer(data);
    if (own != nullptr) hash = own->hash();
  }
  if (tokenizer != nullptr && !hash.empty() && hash != tokenizer->hash()) {
    throw InputError(fmt::format("{}: tokens of another tokenizer than the model's", dir),
                     fmt::format("the data's has hash {}, the model's {}", hash, tokenizer->hash()),
                     "prepare the text with the model's tokenizer, or give the text itself");
  }
  std::vector<int32_t> ids;
  for (int64_t at = 0; at < data.val().size(); at += kPiece) {
    ids.resize(static_cast<size_t>(std::min(kPiece, data.val().size() - at)));
    data.val().Read(at, ids);
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocab_size; });
    if (wrong != ids.end()) {
      throw InputError(fmt::format("{}: the model has no token {}", data.val().path(), *wrong),
                       fmt::format("its tokens are 0 to {}", vocab_size - 1));
    }
    reader.Add(ids);
  }
  reader.EndDocument();
}

void ReadText(const std::string& path, const Tokenizer& tokenizer, const ReadingOptions& options,
              WindowReader& reader) {
  const auto encode = [&](ByteInput& input) {
    EncodeInput(tokenizer, input, options.special,
                [&](std::string_view, std::span<const int32_t> ids) { reader.Add(ids); });
    reader.EndDocument();
  };
  TextStream stream(path, options.text);
  if (stream.form().json_lines) {
    ForJsonDocuments(stream, path, options.text.field,
                     [&](const std::string& text, const std::string& where) {
                       ByteInput input = ByteInput::FromText(text, where);
                       encode(input);
                     });
  } else {
    ByteInput input = stream.AsInput();
    encode(input);
  }
}

}  // namespace

MeasuredTexts FindMeasuredTexts(const std::vector<std::string>& paths, const TextOptions& options) {
  MeasuredTexts found;
  for (const std::string& path : paths) {
    if (IsDataset(path)) {
      const Dataset data(path);
      found.texts.push_back({.name = path, .data_set = true, .size = data.val().size()});
      continue;
    }
    const TextFiles files = FindTextFiles({path}, options);
    found.left_out += (found.left_out.empty() || files.left_out.empty() ? "" : "\n");
    found.left_out += files.left_out;
    for (const std::string& file : files.files) {
      const TextInput input = FindTextInput(file, options);
      const bool plain = !input.form.converted && !input.form.json_lines;
      found.texts.push_back({.name = file, .size = plain ? input.bytes : 0});
    }
  }
  return found;
}

std::vector<TextTotals> ReadWindows(std::span<const MeasuredText> texts, const Tokenizer* tokenizer,
                                    int64_t vocab_size, const ReadingOptions& options,
                                    const OnWindows& on_windows) {
  WindowReader reader(tokenizer, options, on_windows);
  std::vector<TextTotals> totals;
  for (size_t i = 0; i < texts.size() && !reader.enough(); ++i) {
    reader.Begin(i);
    try {
      if (texts[i].data_set) {
        ReadDataSet(texts[i].name, tokenizer, vocab_size, reader);
      } else {
        FOLIO_CHECK(tokenizer != nullptr, "a text without a tokenizer");
        ReadText(texts[i].name, *tokenizer, options, reader);
      }
    } catch (const Enough&) {
      reader.EndDocument();
    }
    totals.push_back(reader.End(texts[i].name));
  }
  reader.Flush();
  return totals;
}

}  // namespace folio
