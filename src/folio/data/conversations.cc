#include "folio/data/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

// Calls f(place, token) for each token, a piece of the file at a time.
template <class F>
void ForTokens(const TokenFile& tokens, F&& f) {
  constexpr int64_t kPiece = 1 << 16;
  std::vector<int32_t> piece;
  for (int64_t begin = 0; begin < tokens.size(); begin += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, tokens.size() - begin)));
    tokens.Read(begin, piece);
    for (size_t i = 0; i < piece.size(); ++i) f(begin + static_cast<int64_t>(i), piece[i]);
  }
}

}  // namespace

void AnswerState::See(int32_t token) {
  if (last_.size() == chat_->answer.size()) last_.erase(last_.begin());
  last_.push_back(token);
  if (last_ == chat_->answer) inside_ = true;
  if (token == chat_->end) inside_ = false;
}

std::vector<int64_t> PositionsOfConversations(const TokenFile& tokens, const ChatTokens& chat) {
  std::vector<int64_t> found;
  int64_t length = 0;
  bool answered = false;
  AnswerState answer(chat);
  const auto end = [&] {
    if (answered) found.push_back(length - 1);
    length = 0;
    answered = false;
    answer = AnswerState(chat);
  };
  ForTokens(tokens, [&](int64_t, int32_t token) {
    if (token == chat.border) return end();
    ++length;
    answer.See(token);
    answered = answered || answer.inside();
  });
  end();
  return found;
}

std::vector<int32_t> FirstQuestion(const TokenFile& tokens, const ChatTokens& chat, int64_t most) {
  constexpr int64_t kEnough = 1 << 16;
  std::vector<int32_t> all(static_cast<size_t>(std::min(kEnough, tokens.size())));
  tokens.Read(0, all);
  std::vector<int32_t> question;
  bool asked = false;  // in this conversation
  AnswerState answer(chat);
  for (const int32_t token : all) {
    if (token == chat.border) {
      question.clear();
      asked = false;
      answer = AnswerState(chat);
      continue;
    }
    if (asked) continue;
    question.push_back(token);
    answer.See(token);
    asked = answer.inside();
    if (asked && std::ssize(question) <= most) return question;
  }
  return {};
}

PackedConversations::PackedConversations(const TokenFile& tokens, const ChatTokens& chat,
                                         BatchShape shape, uint64_t seed, Order order)
    : tokens_(tokens), chat_(chat), shape_(shape), seed_(seed), order_(order) {
  FOLIO_CHECK(shape.B >= 1 && shape.T >= 1 && shape.micro_batches >= 1, "a batch holds something");
  Pack(FindConversations());
  if (!windows_.empty()) return;
  throw InputError(fmt::format("{}: no answers to learn", tokens.path()),
                   fmt::format("none of its conversations has one in its first {} tokens", shape.T),
                   "raise --context, or prepare conversations that have answers, in this part too");
}

std::vector<PackedConversations::Conversation> PackedConversations::FindConversations() {
  std::vector<Conversation> found;
  Conversation now;
  int64_t length = 0;
  AnswerState answer(chat_);
  ForTokens(tokens_, [&](int64_t place, int32_t token) {
    if (token != chat_.border) {
      if (length > 0 && length <= shape_.T) now.targets += answer.inside();
      answer.See(token);
      ++length;
      if (place + 1 < tokens_.size()) return;
    }
    now.inputs = std::min(length - 1, shape_.T);
    if (now.targets > 0) {
      found.push_back(now);
      cut_ += length - 1 > shape_.T;
    }
    now = {.begin = place + 1};
    length = 0;
    answer = AnswerState(chat_);
  });
  conversations_ = std::ssize(found);
  return found;
}

// The longest first, each into the fullest window that has room: best fit decreasing, D. Johnson et
// al., SIAM J. Comput. 3 (1974).
void PackedConversations::Pack(std::vector<Conversation> conversations) {
  std::ranges::stable_sort(conversations, std::greater(), &Conversation::inputs);
  std::map<int64_t, std::vector<size_t>> with_room;  // windows by the positions that are left
  for (const Conversation& conversation : conversations) {
    auto place = with_room.lower_bound(conversation.inputs);
    size_t window = windows_.size();
    int64_t room = shape_.T;
    if (place == with_room.end()) {
      windows_.emplace_back();
    } else {
      room = place->first;
      window = place->second.back();
      place->second.pop_back();
      if (place->second.empty()) with_room.erase(place);
    }
    windows_[window].conversations.push_back(conversation);
    windows_[window].targets += conversation.targets;
    with_room[room - conversation.inputs].push_back(window);
  }
}

int64_t PackedConversations::steps() const {
  return (windows() + shape_.sequences() - 1) / shape_.sequences();
}

const PackedConversations::Window* PackedConversations::At(uint64_t step, int64_t sequence) const {
  const uint64_t count = windows_.size();
  const uint64_t position =
      step * static_cast<uint64_t>(shape_.sequences()) + static_cast<uint64_t>(sequence);
  if (order_ == Order::kOnce && position >= count) return nullptr;
  return &windows_[Permute(position % count, count, seed_, position / count)];
}

int64_t PackedConversations::Targets(uint64_t step) const {
  int64_t targets = 0;
  for (int64_t sequence = 0; sequence < shape_.sequences(); ++sequence) {
    const Window* window = At(step, sequence);
    if (window != nullptr) targets += window->targets;
  }
  return targets;
}

void PackedConversations::Fill(uint64_t step, int64_t micro, Batch& batch) {
  batch.Clear(shape_, micro);
  batch.begins.assign(batch.inputs.size(), 0);
  std::vector<int32_t>& inputs = batch.inputs;
  for (int64_t b = 0; b < shape_.B; ++b) {
    auto at = static_cast<size_t>(b * shape_.T);  // in the batch
    const size_t row = at, row_end = at + static_cast<size_t>(shape_.T);
    const Window* window = At(step, micro * shape_.B + b);
    const std::span<const Conversation> conversations =
        window == nullptr ? std::span<const Conversation>() : window->conversations;
    for (const Conversation& conversation : conversations) {
      const auto count = static_cast<size_t>(conversation.inputs);
      tokens_.Read(conversation.begin, std::span(inputs).subspan(at, count));
      int32_t next = 0;
      tokens_.Read(conversation.begin + conversation.inputs, {&next, 1});
      AnswerState answer(chat_);
      for (size_t i = at; i < at + count; ++i) {
        batch.begins[i] = static_cast<int32_t>(at - row);
        answer.See(inputs[i]);
        if (answer.inside()) batch.targets[i] = i + 1 < at + count ? inputs[i + 1] : next;
      }
      at += count;
    }
    std::fill(batch.begins.begin() + static_cast<std::ptrdiff_t>(at),
              batch.begins.begin() + static_cast<std::ptrdiff_t>(row_end),
              static_cast<int32_t>(at - row));
  }
}

}  // namespace folio
