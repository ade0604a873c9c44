#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace folio {

// The built-in corpus: small English stories, generated on demand from about eight hundred plain
// words in ASCII. In each story a name keeps its pronoun, a thing its colour, lost things are
// found, and given-away things are missing from the count; so that one can judge what a
// model has learned.
//
// Story number `index` of `seed`: 60 to 200 words in a few lines, each ended by a line break. The
// same bytes on every machine.
std::string TellStory(uint64_t seed, uint64_t index);

// One line of that story, a question about it, and the answer, which occurs in the line.
struct StoryQuestion {
  std::string passage, question, answer;
};
StoryQuestion AskAboutStory(uint64_t seed, uint64_t index);

// Passes whole stories 0, 1, 2, ... to `sink` one by one, with an empty line between them, until
// they have at least `bytes` bytes.
void GenerateStories(uint64_t seed, int64_t bytes,
                     const std::function<void(std::string_view)>& sink);

}  // namespace folio
