#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace folio {

// Measures of what a head does: means over its queries except the first, which in a causal model
// only attends to itself. All 0 if there is no other query.
struct HeadScores {
  double entropy = 0;   // in nats
  double distance = 0;  // between query and key
  double first = 0;     // weight on the first token
  double previous = 0;  // weight on the token before the query
  double self = 0;      // weight on the query itself
  // Weight on earlier occurrences of the query's token; over the queries that have one.
  double duplicate = 0;
  // Weight on tokens that followed an earlier occurrence of the query's token; over the queries
  // that have one (C. Olsson et al., arXiv:2209.11895).
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

// Returns the names of kHeadScores.
std::vector<std::string> ScoreNames();

}  // namespace folio
