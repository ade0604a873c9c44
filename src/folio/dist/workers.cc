#include "folio/dist/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/dist/group.h"
#include "folio/dist/transport.h"

namespace folio {
namespace {

// The strings of this rank for each of the others, and those from each of them, whose sizes are
// known.
class StringsOfRanks final : public AllToAll {
 public:
  StringsOfRanks(const std::vector<std::string>& to, std::vector<std::string>& from)
      : to_(to), from_(from) {}

  std::span<const std::byte> Outgoing(int to, int /*slot*/) const override {
    return std::as_bytes(std::span<const char>(to_[static_cast<size_t>(to)]));
  }
  std::span<std::byte> Incoming(int from, int /*slot*/) override {
    return std::as_writable_bytes(std::span<char>(from_[static_cast<size_t>(from)]));
  }

 private:
  const std::vector<std::string>& to_;
  std::vector<std::string>& from_;
};

// Sends `to` each rank its string, and returns the string of each for this one.
std::vector<std::string> Swap(Group& group, const std::vector<std::string>& to) {
  constexpr size_t kSize = sizeof(uint64_t);
  const size_t ranks = to.size();
  std::vector<std::string> sizes_to(ranks), sizes_from(ranks, std::string(kSize, '\0'));
  for (size_t r = 0; r < ranks; ++r) {
    const uint64_t size = to[r].size();
    FOLIO_CHECK(size <= Transport::kMostBytes, "more than a message holds");
    sizes_to[r].assign(reinterpret_cast<const char*>(&size), kSize);
  }
  StringsOfRanks sizes(sizes_to, sizes_from);
  group.Do(sizes);
  std::vector<std::string> from(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == group.rank()) continue;
    uint64_t size = 0;
    std::memcpy(&size, sizes_from[r].data(), kSize);
    FOLIO_CHECK(size <= Transport::kMostBytes, "more than a message holds");
    from[r].resize(size);
  }
  StringsOfRanks strings(to, from);
  group.Do(strings);
  return from;
}

// The first byte of what goes to a worker, and of what it answers.
constexpr char kShare = 's', kHome = 'h', kAnswer = 'a', kError = 'e';

std::string FromError(const Error& error) {
  std::string text = {kError, static_cast<char>(error.exit_status())};
  for (const std::string& part : {std::string(error.what()), error.cause(), error.help()}) {
    text += part + '\0';
  }
  return text;
}

Error ToError(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 2; parts.size() < 3; at += parts.back().size() + 1) {
    parts.emplace_back(text.c_str() + std::min(at, text.size()));
  }
  return {static_cast<ErrorKind>(text[1]), parts[0], parts[1], parts[2]};
}

}  // namespace

Workers::~Workers() {
  if (group_ == nullptr || group_->alone() || !first()) return;
  try {
    if (scattered_) Swap(*group_, std::vector<std::string>(static_cast<size_t>(ranks())));
    Swap(*group_, std::vector<std::string>(static_cast<size_t>(ranks()), {kHome}));
  } catch (const Error&) {  // a rank is lost, which was told
  }
}

void Workers::Scatter(std::vector<std::string> shares) {
  FOLIO_CHECK(first() && !scattered_ && std::ssize(shares) == ranks(), "shares out of turn");
  if (ranks() == 1) return;
  for (std::string& share : shares) share.insert(share.begin(), kShare);
  Swap(*group_, shares);
  scattered_ = true;
}

std::vector<std::string> Workers::Gather() {
  if (ranks() == 1) return {""};
  FOLIO_CHECK(scattered_, "no answer to come");
  scattered_ = false;
  std::vector<std::string> answers =
      Swap(*group_, std::vector<std::string>(static_cast<size_t>(ranks())));
  for (std::string& answer : answers) {
    if (answer.empty()) continue;  // of this rank
    if (answer[0] == kError) throw ToError(answer);
    answer.erase(answer.begin());
  }
  return answers;
}

void Workers::Serve(const Work& work) {
  FOLIO_CHECK(!first(), "the first rank hands the work out");
  std::vector<std::string> mine(static_cast<size_t>(ranks()));
  for (;;) {
    const std::string share = Swap(*group_, std::vector<std::string>(mine.size()))[0];
    if (share == std::string{kHome}) return;
    try {
      mine[0] = kAnswer + work(share.substr(1));
      if (mine[0].size() > Transport::kMostBytes) {  // a document of a gigabyte in one line
        throw InputError(fmt::format("{} has an answer of {}", group_->NameOf(group_->rank()),
                                     HumanBytes(static_cast<double>(mine[0].size()))),
                         "ranks tell each other at most 1 GB at a time", "use one rank");
      }
    } catch (const Error& error) {
      mine[0] = FromError(error);
    }
    Swap(*group_, mine);
  }
}

}  // namespace folio
