#include "folio/data/conversation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"

namespace folio {

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
    AppendLittleEndian(bytes, entries_[i].tokens, entries_[i].behind,
                       static_cast<uint32_t>(entry.answers.size()));
    for (const AnswerTokens& answer : entry.answers) {
      AppendLittleEndian(bytes, answer.begin, answer.end);
    }
  }
  return bytes;
}

ConversationTable ConversationTable::FromBytes(std::string_view bytes, const std::string& path,
                                               int64_t tokens) {
  constexpr size_t kNumber = sizeof(uint32_t);
  ByteReader reader(std::as_bytes(std::span(bytes)), "");
  const auto refuse = [&](std::string cause) {
    throw InputError(fmt::format("{}: does not match this data set", path), std::move(cause),
                     "copy the file again, or prepare the data again");
  };
  const auto require = [&](size_t numbers) {
    if (reader.left() / kNumber < numbers) refuse("it ends in the middle of a conversation");
  };
  const auto next = [&] { return reader.Number<uint32_t>(); };
  ConversationTable table;
  std::vector<AnswerTokens> answers;
  while (reader.left() > 0) {
    require(3);
    const uint32_t length = next(), behind = next(), count = next();
    require(size_t{2} * count);
    answers.clear();
    uint32_t last = 1;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t begin = next(), end = next();
      if (begin < last || end <= begin || end > length) {
        refuse(fmt::format("conversation {}: an answer is out of range", table.size() + 1));
      }
      answers.push_back({begin, end});
      last = end;
    }
    table.Add(length, behind, answers);
    if (table.tokens() > tokens) break;
  }
  if (table.tokens() != tokens) {
    refuse(fmt::format("the number of tokens in its conversations is not that of the data, {}",
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
