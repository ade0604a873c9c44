#include "folio/corpus/pieces.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <type_traits>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

// The length of the longest character: the characters beside a cut are within this many bytes.
constexpr size_t kCharBytes = 4;
constexpr int64_t kViewBytes = 1 << 14;

void CountPlain(const PreparePiece& piece, int64_t units, TextCounts& counts) {
  counts.units = units;
  counts.text_bytes = piece.end - piece.begin.offset;
  if (piece.begin.offset > 0) return;
  counts.documents = 1;
  counts.first = piece.begin;
}

// A buffer that a long piece has made longer than a few times this is freed.
constexpr size_t kKeptBytes = size_t{1} << 20;

template <class Container>
void ClearAndShrink(Container& container) {
  container.clear();
  if (container.capacity() * sizeof(container[0]) > 4 * kKeptBytes) container.shrink_to_fit();
}

// The name of a document for messages, and where its text begins there.
struct Whereabouts {
  std::string where;
  TextPosition position;
};

Whereabouts Locate(const PrepareSource& source, const PrepareDocument& document) {
  if (!source.json_lines()) return {source.path(), source.PositionOf(document.offset)};
  Whereabouts inside{
      fmt::format("{}: {}", source.NameLine(document.offset), Json(source.field()).dump()), {}};
  inside.position.Advance(document.before);
  return inside;
}

// The part that a piece has of the document `whole`, whose line is at [offset, end).
PrepareDocument PartOf(std::string_view whole, const PreparePiece& piece, int64_t offset,
                       int64_t end) {
  const std::string_view text = whole.substr(0, static_cast<size_t>(piece.text_end));  // -1: all
  const size_t begin = std::min(text.size(), static_cast<size_t>(piece.text_begin));
  return {text.substr(begin), offset, end, begin == 0, text.substr(0, begin)};
}

namespace fs = std::filesystem;

// The first byte of a message that is no PieceWork.
constexpr char kSources = 'S', kTokenizer = 'T';

// Appends fields, none of which contains a NUL.
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

// Appends the result of a piece to an answer: its size and its bytes.
void PutAnswer(std::string_view bytes, std::string& answer) {
  const uint64_t size = bytes.size();
  answer.append(reinterpret_cast<const char*>(&size), sizeof(size));
  answer += bytes;
}

// Removes the first result from an answer and returns it.
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

// The work of one of the other ranks.
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
    return InputError(fmt::format("{} reads other data for {} than the first rank", name_, path));
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
      input.form.unit = static_cast<LineUnit>(fields.Number());
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
    if (!IsBlankLine(line)) {
      const std::string text =
          TextOfJsonLine(line, source.field(), [&] { return source.NameLine(offset); });
      f(PartOf(text, piece, offset, piece.begin.offset + static_cast<int64_t>(end)));
    }
    at = end;
  }
}

CutRule::CutRule(const Tokenizer& tokenizer, bool specials)
    : tokenizer_(&tokenizer), context_(2 * kCharBytes) {
  if (!specials) return;
  specials_ = tokenizer.special_tokens();
  for (const SpecialToken& special : specials_) context_ = std::max(context_, special.text.size());
}

// Returns true if the text of any special token lies across `at`. Else no match of special tokens,
// whichever is chosen if they overlap, depends on the text behind the cut.
bool CutRule::InsideSpecial(std::string_view view, size_t at) const {
  return std::ranges::any_of(specials_, [&](const SpecialToken& special) {
    const size_t reach = special.text.size() - 1;
    const size_t begin = at - std::min(at, reach);
    return view.substr(begin, at - begin + reach).find(special.text) != std::string_view::npos;
  });
}

size_t CutRule::Find(std::string_view view, size_t at) const {
  if (tokenizer_ == nullptr) return at + FindCharacter(view.substr(at), 0);
  for (;; ++at) {
    at = tokenizer_->FindCut(view, at);
    if (at >= view.size() || !InsideSpecial(view, at)) return at;
  }
}

PieceCutter::PieceCutter(std::span<const PrepareSource> sources, const CutRule& rule,
                         int64_t piece_bytes, std::span<const PrepareSplit> splits,
                         PreparePlace begin, int64_t longest_line)
    : sources_(sources),
      rule_(rule),
      piece_bytes_(piece_bytes),
      longest_line_(longest_line),
      splits_(splits),
      at_(begin) {
  FOLIO_CHECK(piece_bytes > 0, "a piece holds something");
}

// Returns this split if it cuts the document of the line that begins here, else null.
const PrepareSplit* PieceCutter::InThisLine(size_t split) const {
  if (split >= splits_.size()) return nullptr;
  const PrepareSplit& found = splits_[split];
  const bool here = found.source == at_.source && found.offset == at_.offset;
  return here && found.inside > 0 ? &found : nullptr;
}

// Passes the splits at or before this place, except those inside the line that begins here.
void PieceCutter::PassSplits() {
  for (; at_.part < splits_.size(); ++at_.part) {
    const PrepareSplit& next = splits_[at_.part];
    if (InThisLine(at_.part) != nullptr) return;
    if (std::pair(next.source, next.offset) > std::pair(at_.source, at_.offset)) return;
  }
}

void PieceCutter::MoveTo(int64_t offset) {
  at_.offset = offset;
  if (offset < sources_[at_.source].bytes()) return;
  at_.offset = 0;
  ++at_.source;
}

// Returns the part of a document between two splits; null means the document's begin or end.
PreparePiece PieceCutter::PartOfLine(const PrepareSplit* begin, const PrepareSplit* end) {
  PreparePiece piece{.begin = at_, .end = (begin != nullptr ? begin : end)->line_end};
  if (begin != nullptr) piece.text_begin = begin->inside;
  if (end != nullptr) {
    piece.text_end = end->inside;
    ++at_.part;
  } else {
    MoveTo(piece.end);
  }
  return piece;
}

std::optional<PreparePiece> PieceCutter::Next() {
  PassSplits();
  const PrepareSplit* before = at_.part > 0 ? InThisLine(at_.part - 1) : nullptr;
  const PrepareSplit* ahead = InThisLine(at_.part);
  if (before != nullptr || ahead != nullptr) return PartOfLine(before, ahead);
  if (at_.source == sources_.size()) return std::nullopt;
  const PrepareSource& source = sources_[at_.source];
  const bool split_ahead = at_.part < splits_.size() && splits_[at_.part].source == at_.source;
  PreparePiece piece{.begin = at_};
  piece.end = FindEnd(source, split_ahead ? splits_[at_.part].offset : source.bytes());
  MoveTo(piece.end);
  return piece;
}

int64_t PieceCutter::FindEnd(const PrepareSource& source, int64_t limit) {
  const int64_t at_least = at_.offset + piece_bytes_;
  if (at_least >= limit) return limit;
  return source.json_lines() ? FindLineEnd(source, at_least, limit)
                             : FindCut(source, at_least, limit);
}

// The end of the line with byte `look` - 1.
int64_t PieceCutter::FindLineEnd(const PrepareSource& source, int64_t look, int64_t limit) {
  for (int64_t begin = look - 1; begin < limit; begin += kViewBytes) {
    source.Read(begin, std::min(limit, begin + kViewBytes), view_);
    const size_t line = view_.find('\n');
    if (line != std::string::npos) return begin + static_cast<int64_t>(line) + 1;
    RequireLineEnds(begin - at_.offset, source.path(), longest_line_);
  }
  return limit;
}

// The first cut at or behind `look`, searched for in views that overlap by the context.
int64_t PieceCutter::FindCut(const PrepareSource& source, int64_t look, int64_t limit) {
  const int64_t context = static_cast<int64_t>(rule_.context());
  while (look < limit) {
    const int64_t begin = std::max(at_.offset, look - context);
    const int64_t end = std::min(limit, look + kViewBytes + context);
    source.Read(begin, end, view_);
    const int64_t found =
        begin + static_cast<int64_t>(rule_.Find(view_, static_cast<size_t>(look - begin)));
    // Near the end of the view the context behind a cut is missing.
    const int64_t seen = end == limit ? limit : end - context;
    if (found < seen) return found;
    look = seen;
  }
  return limit;
}

int64_t CountUnits(std::string_view text, PrepareUnit unit) {
  return unit == PrepareUnit::kByte ? static_cast<int64_t>(text.size()) : CountCharacters(text);
}

TextCounter::TextCounter(std::span<const PrepareSource> sources, PrepareUnit unit, bool collect)
    : sources_(sources), unit_(unit), collect_(collect), bytes_(static_cast<size_t>(Threads())) {}

void TextCounter::Count(const PreparePiece& piece, TextCounts& counts, int thread) {
  const PrepareSource& source = sources_[piece.begin.source];
  counts = {};
  std::string& bytes = bytes_[static_cast<size_t>(thread)];
  if (unit_ == PrepareUnit::kByte && !source.json_lines()) {
    return CountPlain(piece, piece.end - piece.begin.offset, counts);
  }
  source.Read(piece.begin.offset, piece.end, bytes);
  if (!source.json_lines()) {
    CountPlain(piece, CountUnits(bytes, unit_), counts);
    if (collect_) counts.texts.push_back(bytes);
    return;
  }
  ForDocuments(source, piece, bytes, [&](const PrepareDocument& document) {
    if (!counts.first) counts.first = {piece.begin.source, document.offset};
    ++counts.documents;
    counts.units += CountUnits(document.text, unit_);
    counts.text_bytes += static_cast<int64_t>(document.text.size());
    if (collect_) counts.texts.emplace_back(document.text);
  });
}

PieceEncoder::PieceEncoder(const Tokenizer& tokenizer, std::span<const PrepareSource> sources,
                           const PreparePlace& first, const SpecialRule& rule, TokenWidth width)
    : tokenizer_(tokenizer),
      sources_(sources),
      first_(first),
      specials_(tokenizer.special_tokens(), rule),
      width_(width),
      scratch_(static_cast<size_t>(Threads())) {}

void PieceEncoder::Encode(const PreparePiece& piece, std::vector<std::byte>& out, int thread) {
  const PrepareSource& source = sources_[piece.begin.source];
  Scratch& scratch = scratch_[static_cast<size_t>(thread)];
  ClearAndShrink(scratch.bytes);
  ClearAndShrink(scratch.ids);
  ClearAndShrink(out);
  Tokens tokens{scratch.ids, out};
  // Null if the piece is no part of a line.
  const std::shared_ptr<const LineDocument> line = ReadLine(piece, scratch);
  if (line != nullptr) {
    EncodeDocument(source, piece, PartOf(line->text, piece, line->offset, piece.end), tokens);
  } else {
    source.Read(piece.begin.offset, piece.end, scratch.bytes);
    ForDocuments(source, piece, scratch.bytes, [&](const PrepareDocument& document) {
      EncodeDocument(source, piece, document, tokens);
    });
  }
  Flush(tokens);
}

// Returns the document that the piece is a part of; null if it is not a part. A document is usually
// read only once: its other parts find it in the scratch memory of the thread that had one of them.
std::shared_ptr<const PieceEncoder::LineDocument> PieceEncoder::ReadLine(const PreparePiece& piece,
                                                                         Scratch& scratch) {
  const std::lock_guard lock(lines_);
  if (!piece.is_part()) return scratch.line = nullptr;
  const PreparePlace& at = piece.begin;
  for (const Scratch& other : scratch_) {
    if (other.line == nullptr) continue;
    if (other.line->source != at.source || other.line->offset != at.offset) continue;
    return scratch.line = other.line;
  }
  scratch.line = nullptr;  // is freed before the next one is read
  const PrepareSource& source = sources_[at.source];
  LineDocument line{.source = at.source, .offset = at.offset};
  std::string bytes;
  source.Read(at.offset, piece.end, bytes);
  line.text = TextOfJsonLine(bytes, source.field(), [&] { return source.NameLine(at.offset); });
  return scratch.line = std::make_shared<const LineDocument>(std::move(line));
}

void PieceEncoder::EncodeDocument(const PrepareSource& source, const PreparePiece& piece,
                                  const PrepareDocument& document, Tokens& tokens) const {
  const std::optional<int32_t> end_of_text = tokenizer_.end_of_text();
  const bool is_first = piece.begin.source == first_.source && document.offset == first_.offset;
  if (document.begins && !is_first && end_of_text) tokens.ids.push_back(*end_of_text);
  EncodeText(source, document, tokens);
}

void PieceEncoder::Flush(Tokens& tokens) const {
  AppendTokenBytes(tokens.ids, width_, tokens.out);
  tokens.ids.clear();
}

void PieceEncoder::EncodeText(const PrepareSource& source, const PrepareDocument& document,
                              Tokens& tokens) const {
  const std::string_view text = document.text;
  const SpecialFinder::Match refused = specials_.NextDisallowed(text, 0);
  if (refused.token != nullptr) {
    const Whereabouts at = Locate(source, document);
    throw SpecialNotAllowed(*refused.token, text, refused.begin, at.position, at.where);
  }
  if (tokenizer_.whole_texts()) {
    const std::vector<int32_t> all = tokenizer_.Encode(text, source.path(), specials_.rule());
    tokens.ids.insert(tokens.ids.end(), all.begin(), all.end());
    return;
  }
  size_t at = 0;
  for (SpecialFinder::Match match = specials_.Next(text, at); match.token != nullptr;
       match = specials_.Next(text, at)) {
    EncodeOrdinary(source, document, at, match.begin, tokens);
    tokens.ids.push_back(match.token->id);
    at = match.end();
  }
  EncodeOrdinary(source, document, at, text.size(), tokens);
}

void PieceEncoder::EncodeOrdinary(const PrepareSource& source, const PrepareDocument& document,
                                  size_t begin, size_t end, Tokens& tokens) const {
  const std::string_view text = document.text.substr(begin, end - begin);
  for (size_t at = 0; at < text.size();) {
    if (stops_) ThrowIfStopRequested();
    const size_t look = at + kIdsHeld;
    const size_t cut = look < text.size() ? tokenizer_.FindCut(text, look) : text.size();
    const size_t done = at + tokenizer_.EncodePrefix(text.substr(at, cut - at), tokens.ids);
    if (done < cut) {
      const Whereabouts place = Locate(source, document);
      throw CannotEncode(tokenizer_, document.text, begin + done, place.position, place.where);
    }
    if (tokens.ids.size() >= kIdsHeld) Flush(tokens);
    at = cut;
  }
}

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
        static_cast<int>(form.unit), bytes, modified, source.bytes());
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

void PieceRanks::Scatter(PieceWork work,
                         const std::vector<std::span<const PreparePiece>>& by_rank) {
  if (size() == 1) return;
  std::vector<std::string> shares;
  for (const std::span<const PreparePiece> pieces : by_rank) {
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
