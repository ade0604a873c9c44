#include "folio/corpus/piece_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/pieces.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The first byte of a message that is no PieceWork.
constexpr char kSources = 'S', kTokenizer = 'T';

// Appends fields, none of which has a NUL, one after the other.
template <class... Fields>
void Put(std::string& message, const Fields&... fields) {
  ((message += fmt::format("{}", fields), message += '\0'), ...);
}

class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  std::string Text() {
    const size_t end = text_.find('\0');
    FOLIO_CHECK(end != text_.npos, "a message that ends early");
    std::string field(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return field;
  }
  bool Flag() { return Text() == "true"; }
  int64_t Number() {
    const std::string field = Text();
    int64_t number = 0;
    std::from_chars(field.data(), field.data() + field.size(), number);
    return number;
  }

 private:
  std::string_view text_;
};

static_assert(std::is_trivially_copyable_v<PreparePiece>);

std::vector<PreparePiece> PiecesFrom(std::string_view text) {
  std::vector<PreparePiece> pieces(text.size() / sizeof(PreparePiece));
  std::copy_n(text.data(), pieces.size() * sizeof(PreparePiece),
              reinterpret_cast<char*>(pieces.data()));
  return pieces;
}

// An answer is a row of these, one for each piece: its size, and its bytes.
void PutAnswer(std::string_view bytes, std::string& answer) {
  const uint64_t size = bytes.size();
  answer.append(reinterpret_cast<const char*>(&size), sizeof(size));
  answer += bytes;
}

// Takes the first of them away.
std::string_view TakeAnswer(std::string_view& answer) {
  uint64_t size = 0;
  FOLIO_CHECK(answer.size() >= sizeof(size), "an answer that ends early");
  std::memcpy(&size, answer.data(), sizeof(size));
  answer.remove_prefix(sizeof(size));
  FOLIO_CHECK(answer.size() >= size, "an answer that ends early");
  const std::string_view piece = answer.substr(0, size);
  answer.remove_prefix(size);
  return piece;
}

std::string_view ToAnswer(const std::vector<std::byte>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size()};
}

std::string ToAnswer(const TextCounts& counts) {
  std::string answer;
  Put(answer, counts.units, counts.documents, counts.text_bytes);
  if (counts.first) Put(answer, counts.first->source, counts.first->offset);
  return answer;
}

// One of the other ranks.
class PieceWorker {
 public:
  explicit PieceWorker(std::string name) : name_(std::move(name)) {}

  std::string Work(const std::string& share) {
    const std::string_view rest = std::string_view(share).substr(1);
    switch (share[0]) {
      case kSources:
        return OpenSources(FieldReader(rest));
      case kTokenizer:
        return OpenEncoder(FieldReader(rest));
      case static_cast<char>(PieceWork::kEncode):
        return OnPieces<std::vector<std::byte>>(
            rest, [&](const auto& piece, auto& out, int t) { encoder_->Encode(piece, out, t); });
      default: {
        const bool bytes = share[0] == static_cast<char>(PieceWork::kCountBytes);
        TextCounter counter(sources_, bytes ? PrepareUnit::kByte : PrepareUnit::kCharacter,
                            /*collect=*/false);
        return OnPieces<TextCounts>(
            rest, [&](const auto& piece, auto& counts, int t) { counter.Count(piece, counts, t); });
      }
    }
  }

 private:
  Error NotSeen(const std::string& path) const {
    return InputError(fmt::format("{} does not see {} as the first rank does", name_, path));
  }

  std::string OpenSources(FieldReader fields) {
    TextOptions options;
    options.field = fields.Text();
    options.raw = fields.Flag();
    sources_.clear();
    while (!fields.at_end()) {
      TextInput input;
      input.path = fields.Text();
      input.file = fields.Text();
      const std::string text = fields.Text();
      input.once = fields.Flag();
      input.form.converted = fields.Flag();
      input.form.json_lines = fields.Flag();
      input.form.json_values = fields.Flag();
      input.bytes = fields.Number();
      input.modified = fields.Number();
      const int64_t bytes = fields.Number();
      try {
        sources_.emplace_back(input, options, text);
        if (!input.form.converted) sources_.back().CheckUnchanged();
      } catch (const std::exception&) {  // of files, or an Error
        throw NotSeen(input.path);
      }
      if (sources_.back().bytes() != bytes) throw NotSeen(input.path);
    }
    return "";
  }

  std::string OpenEncoder(FieldReader fields) {
    const std::string dir = fields.Text();
    PreparePlace first;
    first.source = static_cast<size_t>(fields.Number());
    first.offset = fields.Number();
    const std::string special = fields.Text();
    const std::string hash = fields.Text();
    const auto width = static_cast<TokenWidth>(fields.Number());
    try {
      tokenizer_ = LoadTokenizer(dir);
    } catch (const Error&) {
      throw NotSeen(dir);
    }
    if (tokenizer_->hash() != hash) throw NotSeen(dir);
    encoder_.emplace(*tokenizer_, sources_, first, SpecialRule::Named(special), width);
    return "";
  }

  template <class Result, class Work>
  static std::string OnPieces(std::string_view share, Work&& work) {
    const std::vector<PreparePiece> pieces = PiecesFrom(share);
    std::vector<Result> results(pieces.size());
    std::vector<std::exception_ptr> failures(pieces.size());
    ParallelFor(std::ssize(pieces), [&](int64_t task, int thread) {
      const auto i = static_cast<size_t>(task);
      try {
        work(pieces[i], results[i], thread);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
    std::string answer;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (failures[i]) std::rethrow_exception(failures[i]);
      PutAnswer(ToAnswer(results[i]), answer);
    }
    return answer;
  }

  std::string name_;
  std::vector<PrepareSource> sources_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<PieceEncoder> encoder_;
};

}  // namespace

std::string PieceRanks::Tell(const std::string& message) {
  workers_->Scatter(std::vector<std::string>(static_cast<size_t>(size()), message));
  try {
    workers_->Gather();
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    workers_ = nullptr;
    return error.what();
  }
}

std::string PieceRanks::Open(std::span<const PrepareSource> sources, const TextOptions& options) {
  if (size() == 1) return "";
  std::string message(1, kSources);
  Put(message, options.field, options.raw);
  for (const PrepareSource& source : sources) {
    const auto& [path, file, once, form, bytes, modified] = source.input();
    Put(message, path, file, source.text_file(), once, form.converted, form.json_lines,
        form.json_values, bytes, modified, source.bytes());
  }
  return Tell(message);
}

std::string PieceRanks::OpenTokenizer(const fs::path& dir, const std::string& hash,
                                      const PreparePlace& first, const std::string& special,
                                      TokenWidth width) {
  if (size() == 1) return "";
  std::string message(1, kTokenizer);
  Put(message, dir.string(), first.source, first.offset, special, hash, static_cast<int>(width));
  return Tell(message);
}

void PieceRanks::Scatter(PieceWork work, const std::vector<std::span<const PreparePiece>>& of) {
  if (size() == 1) return;
  std::vector<std::string> shares;
  for (const std::span<const PreparePiece> pieces : of) {
    shares.emplace_back(1, static_cast<char>(work));
    shares.back().append(reinterpret_cast<const char*>(pieces.data()), pieces.size_bytes());
  }
  workers_->Scatter(std::move(shares));
}

void PieceRanks::Gather(const std::function<void(std::string_view answer)>& each) {
  if (size() == 1) return;
  for (const std::string& answer : workers_->Gather()) {
    for (std::string_view rest = answer; !rest.empty();) each(TakeAnswer(rest));
  }
}

void PrepareAsWorker(Group& group) {
  PieceWorker worker(group.NameOf(group.rank()));
  Workers(&group).Serve([&](const std::string& share) { return worker.Work(share); });
}

void FromAnswer(std::string_view answer, std::vector<std::byte>& tokens) {
  const auto bytes = std::as_bytes(std::span(answer));
  tokens.assign(bytes.begin(), bytes.end());
}

void FromAnswer(std::string_view answer, TextCounts& counts) {
  FieldReader fields(answer);
  counts = {};
  counts.units = fields.Number();
  counts.documents = fields.Number();
  counts.text_bytes = fields.Number();
  if (fields.at_end()) return;
  counts.first.emplace();
  counts.first->source = static_cast<size_t>(fields.Number());
  counts.first->offset = fields.Number();
}

}  // namespace folio
