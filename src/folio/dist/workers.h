#pragma once

#include <functional>
#include <string>
#include <vector>

#include "folio/dist/group.h"

namespace folio {

// The other ranks as workers of the first one, which alone knows the whole of the work: it hands
// out shares and gets an answer to each. Those whose work goes so take part in nothing else
// meanwhile.
class Workers {
 public:
  // The answer to a share. The Error that it throws is thrown at the first rank.
  using Work = std::function<std::string(const std::string& share)>;

  // The group, null for one rank alone, must outlive it.
  explicit Workers(Group* group) : group_(group) {}
  // On the first rank: waits for answers that are still to come, and sends the workers home.
  ~Workers();
  Workers(const Workers&) = delete;

  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }

  // On the first rank, in turns: hands shares out, by rank, of which its own is not looked at;
  // and waits for what the others answer, by rank, its own being "". Throws the Error of the first
  // rank that has thrown one.
  void Scatter(std::vector<std::string> shares);
  std::vector<std::string> Gather();

  // On every other rank: works until it is sent home.
  void Serve(const Work& work);

 private:
  Group* group_;
  bool scattered_ = false;
};

}  // namespace folio
