#pragma once

#include <cstdint>
#include <vector>

#include "folio/data/batch_sampler.h"
#include "folio/data/conversation_table.h"
#include "folio/data/token_file.h"

namespace folio {

// The positions that each conversation with an answer takes: its tokens but the last, which is only
// a target. In order.
std::vector<int64_t> PositionsOfConversations(const ConversationTable& table);

// The tokens before the first answer of the first conversation that has at most this many of them:
// a prompt for the model. Empty if there is none.
std::vector<int32_t> FirstQuestion(const TokenFile& tokens, const ConversationTable& table,
                                   int64_t most);

// Conversations, packed into windows of T positions; only answers are targets. A window holds as
// many whole conversations as fit, and Batch::begins separates them. A conversation longer than a
// window is cut at its end. Keeps a reference to `tokens`. Throws a kInput Error if there is no
// answer.
class PackedConversations final : public BatchSampler {
 public:
  enum class Order {
    kShuffled,  // all windows in each epoch, in a new order each time; epochs follow each other
    kOnce,      // in a fixed order; behind the last window there are no targets
  };
  PackedConversations(const TokenFile& tokens, const ConversationTable& table, BatchShape shape,
                      uint64_t seed, Order order);

  void Fill(uint64_t step, int64_t micro, Batch& batch) override;
  int64_t Targets(uint64_t step) const override;

  int64_t conversations() const { return conversations_; }  // those with an answer
  int64_t cut() const { return cut_; }                      // conversations longer than a window
  int64_t windows() const { return static_cast<int64_t>(windows_.size()); }
  int64_t steps() const;  // the steps after which all windows have been seen once

 private:
  struct Conversation {
    size_t index = 0;     // in the table
    int64_t inputs = 0;   // 1 .. T
    int64_t targets = 0;  // inputs whose target belongs to an answer
  };
  struct Window {
    std::vector<Conversation> conversations;
    int64_t targets = 0;
  };

  std::vector<Conversation> FindConversations();
  void Pack(std::vector<Conversation> conversations);
  // The window of a sequence of the run; null if there is none.
  const Window* At(uint64_t step, int64_t sequence) const;

  const TokenFile& tokens_;
  const ConversationTable& table_;
  BatchShape shape_;
  uint64_t seed_;
  Order order_;
  int64_t conversations_ = 0, cut_ = 0;
  std::vector<Window> windows_;
};

}  // namespace folio
