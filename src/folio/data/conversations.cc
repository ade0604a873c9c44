#include "folio/data/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {

std::vector<int64_t> PositionsOfConversations(const ConversationTable& table) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < table.size(); ++i) {
    const ConversationTable::Entry entry = table[i];
    if (!entry.answers.empty()) found.push_back(entry.tokens - 1);
  }
  return found;
}

std::vector<int32_t> FirstQuestion(const TokenFile& tokens, const ConversationTable& table,
                                   int64_t most) {
  for (size_t i = 0; i < table.size(); ++i) {
    const ConversationTable::Entry entry = table[i];
    if (entry.answers.empty() || entry.answers[0].begin > most) continue;
    std::vector<int32_t> question(entry.answers[0].begin);
    tokens.Read(entry.begin, question);
    return question;
  }
  return {};
}

PackedConversations::PackedConversations(const TokenFile& tokens, const ConversationTable& table,
                                         BatchShape shape, uint64_t seed, Order order)
    : tokens_(tokens), table_(table), shape_(shape), seed_(seed), order_(order) {
  FOLIO_CHECK(shape.B >= 1 && shape.T >= 1 && shape.micro_batches >= 1, "a batch holds something");
  Pack(FindConversations());
  if (!windows_.empty()) return;
  throw InputError(fmt::format("{}: no answers to train on", tokens.path()),
                   fmt::format("no conversation has an answer in its first {} tokens", shape.T),
                   "raise --context, or prepare conversations with answers");
}

std::vector<PackedConversations::Conversation> PackedConversations::FindConversations() {
  std::vector<Conversation> found;
  for (size_t i = 0; i < table_.size(); ++i) {
    const ConversationTable::Entry entry = table_[i];
    Conversation now{.index = i, .inputs = std::min(entry.tokens - 1, shape_.T)};
    for (const AnswerTokens& answer : entry.answers) {
      now.targets +=
          std::max<int64_t>(std::min<int64_t>(answer.end, now.inputs + 1) - answer.begin, 0);
    }
    if (now.targets == 0) continue;
    found.push_back(now);
    cut_ += entry.tokens - 1 > shape_.T;
  }
  conversations_ = std::ssize(found);
  return found;
}

// Puts the longest first, each into the fullest window with enough room: best fit decreasing, D.
// Johnson et al., SIAM J. Comput. 3 (1974).
void PackedConversations::Pack(std::vector<Conversation> conversations) {
  std::ranges::stable_sort(conversations, std::greater(), &Conversation::inputs);
  std::map<int64_t, std::vector<size_t>> with_room;  // windows by their free positions
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
    auto at = static_cast<size_t>(b * shape_.T);  // offset in the batch
    const size_t row = at, row_end = at + static_cast<size_t>(shape_.T);
    const Window* window = At(step, micro * shape_.B + b);
    const std::span<const Conversation> conversations =
        window == nullptr ? std::span<const Conversation>() : window->conversations;
    for (const Conversation& conversation : conversations) {
      const auto count = static_cast<size_t>(conversation.inputs);
      const ConversationTable::Entry entry = table_[conversation.index];
      tokens_.Read(entry.begin, std::span(inputs).subspan(at, count));
      int32_t next = 0;  // behind them
      tokens_.Read(entry.begin + conversation.inputs, {&next, 1});
      std::fill_n(batch.begins.begin() + static_cast<std::ptrdiff_t>(at), count,
                  static_cast<int32_t>(at - row));
      for (const AnswerTokens& answer : entry.answers) {
        for (size_t t = answer.begin; t < answer.end && t <= count; ++t) {
          batch.targets[at + t - 1] = t < count ? inputs[at + t] : next;
        }
      }
      at += count;
    }
    std::fill(batch.begins.begin() + static_cast<std::ptrdiff_t>(at),
              batch.begins.begin() + static_cast<std::ptrdiff_t>(row_end),
              static_cast<int32_t>(at - row));
  }
}

}  // namespace folio
