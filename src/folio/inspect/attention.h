#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace folio {

// HeadScores says in numbers what a head does: means over its queries but the first, which in a
// causal model sees only itself. All 0 where there is no query to ask.
struct HeadScores {
  double entropy = 0;   // nats
  double distance = 0;  // between query and key
  double first = 0;     // weight on the first token
  double previous = 0;  // on the token before the query
  double self = 0;      // on the query itself
  // `duplicate` is the weight on earlier occurrences of the query's token; over the queries that
  // have one.
  double duplicate = 0;
  // `induction` is the weight on earlier tokens that followed an occurrence of the query's token;
  // over the queries that have one (C. Olsson et al., arXiv:2209.11895).
  double induction = 0;
};

// A score with its name, as in --sort and in tables.
struct NamedScore {
  const char* name;
  double HeadScores::*score;
};
inline constexpr NamedScore kHeadScores[] = {
    {"entropy", &HeadScores::entropy},     {"distance", &HeadScores::distance},
    {"first", &HeadScores::first},         {"previous", &HeadScores::previous},
    {"self", &HeadScores::self},           {"duplicate", &HeadScores::duplicate},
    {"induction", &HeadScores::induction},
};

// weights (T,T), rows are queries, 0 where one may not look; ids (T).
HeadScores ScoreHead(std::span<const float> weights, std::span<const int32_t> ids);

// Their names.
std::vector<std::string> ScoreNames();

}  // namespace folio
