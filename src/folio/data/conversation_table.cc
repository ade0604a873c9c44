#include "folio/data/conversation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

constexpr size_t kNumberBytes = 4;

void AppendNumber(uint32_t value, std::string& out) {
  for (size_t i = 0; i < kNumberBytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
}

// Takes numbers from the beginning of bytes.
class NumberReader {
 public:
  NumberReader(std::string_view bytes, const std::string& path) : rest_(bytes), path_(path) {}

  bool at_end() const { return rest_.empty(); }
  size_t left() const { return rest_.size() / kNumberBytes; }
  uint32_t Next() {
    if (rest_.size() < kNumberBytes) Fail("it ends in the middle of a conversation");
    uint32_t value = 0;
    for (size_t i = 0; i < kNumberBytes; ++i) {
      value |= uint32_t{static_cast<uint8_t>(rest_[i])} << 8 * i;
    }
    rest_.remove_prefix(kNumberBytes);
    return value;
  }
  [[noreturn]] void Fail(std::string cause) const {
    throw InputError(fmt::format("{}: does not match this data set", path_), std::move(cause),
                     "copy the file again, or prepare the data again");
  }

 private:
  std::string_view rest_;
  const std::string& path_;
};

}  // namespace

void ConversationTable::Add(int64_t tokens, int64_t behind, std::span<const AnswerTokens> answers) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  FOLIO_CHECK(tokens >= 0 && tokens <= kMost && behind >= 0 && behind <= kMost, "the length fits");
  entries_.push_back({.begin = tokens_,
                      .tokens = static_cast<uint32_t>(tokens),
                      .behind = static_cast<uint32_t>(behind),
                      .first_answer = answers_.size()});
  answers_.insert(answers_.end(), answers.begin(), answers.end());
  tokens_ += tokens + behind;
}

ConversationTable::Entry ConversationTable::operator[](size_t i) const {
  const Place& place = entries_[i];
  const size_t end = i + 1 < entries_.size() ? entries_[i + 1].first_answer : answers_.size();
  return {place.begin, place.tokens,
          std::span(answers_).subspan(place.first_answer, end - place.first_answer)};
}

std::string ConversationTable::Bytes() const {
  std::string bytes;
  for (size_t i = 0; i < size(); ++i) {
    const Entry entry = (*this)[i];
    AppendNumber(entries_[i].tokens, bytes);
    AppendNumber(entries_[i].behind, bytes);
    AppendNumber(static_cast<uint32_t>(entry.answers.size()), bytes);
    for (const AnswerTokens& answer : entry.answers) {
      AppendNumber(answer.begin, bytes);
      AppendNumber(answer.end, bytes);
    }
  }
  return bytes;
}

ConversationTable ConversationTable::FromBytes(std::string_view bytes, const std::string& path,
                                               int64_t tokens) {
  NumberReader reader(bytes, path);
  ConversationTable table;
  std::vector<AnswerTokens> answers;
  while (!reader.at_end()) {
    const uint32_t length = reader.Next(), behind = reader.Next(), count = reader.Next();
    if (count > reader.left() / 2) reader.Fail("it ends in the middle of a conversation");
    answers.clear();
    uint32_t last = 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t begin = reader.Next(), end = reader.Next();
      if (begin < last || end <= begin || end > length) {
        reader.Fail(fmt::format("conversation {}: an answer is out of range", table.size() + 1));
      }
      answers.push_back({begin, end});
      last = end;
    }
    table.Add(length, behind, answers);
    if (table.tokens() > tokens) break;
  }
  if (table.tokens() != tokens) {
    reader.Fail(fmt::format("the number of tokens in its conversations is not that of the data, {}",
                            tokens));
  }
  return table;
}

ConversationTable TableByMarks(const TokenFile& tokens, const ChatMarks& marks) {
  constexpr int64_t kPiece = 1 << 16;
  ConversationTable table;
  std::vector<AnswerTokens> answers;
  std::vector<int32_t> last, piece;  // the last tokens read, as many as mark the begin of an answer
  uint32_t length = 0;
  bool inside = false;  // an answer
  const auto see = [&](int32_t token) {
    if (inside) answers.back().end = length + 1;
    if (last.size() == marks.answer.size()) last.erase(last.begin());
    last.push_back(token);
    ++length;
    if (last == marks.answer && !inside) answers.push_back({length, length});
    inside = (inside || last == marks.answer) && token != marks.end;
  };
  const auto end = [&](int64_t behind) {
    std::erase_if(answers, [](const AnswerTokens& answer) { return answer.begin == answer.end; });
    table.Add(length, behind, answers);
    answers.clear();
    last.clear();
    length = 0;
    inside = false;
  };
  for (int64_t begin = 0; begin < tokens.size(); begin += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, tokens.size() - begin)));
    tokens.Read(begin, piece);
    for (const int32_t token : piece) token == marks.border ? end(1) : see(token);
  }
  if (length > 0) end(0);
  return table;
}

}  // namespace folio
