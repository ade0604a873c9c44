#pragma once

#include <functional>
#include <string>
#include <vector>

#include "folio/dist/group.h"

namespace folio {

// The other ranks as helpers of the first one, which alone knows the whole of the work: it hands
// out shares and gets an answer to each. Those whose work goes so take part in nothing else
// meanwhile.
class Helpers {
 public:
  // The answer to a share. The Error that it throws is thrown at the first rank.
  using Work = std::function<std::string(const std::string& share)>;

  // The group, null for one rank alone, must outlive it.
  explicit Helpers(Group* group) : group_(group) {}
  // On the first rank: waits for answers that are still to come, and sends the helpers home.
  ~Helpers();
  Helpers(const Helpers&) = delete;

  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  bool first() const { return group_ == nullptr || group_->first(); }

  // On the first rank, in turns: hands shares out, by rank, of which its own is not looked at;
  // and waits for what the others answer, by rank, its own being "". Throws the Error of the first
  // rank that has thrown one.
  void HandOut(std::vector<std::string> shares);
  std::vector<std::string> Answers();

  // On every other rank: works until it is sent home.
  void Help(const Work& work);

 private:
  Group* group_;
  bool handed_out_ = false;
};

}  // namespace folio
