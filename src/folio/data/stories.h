#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace folio {

// The built-in corpus: small English stories, made up as they are asked for, of some eight hundred
// plain words in ASCII. In each story a name keeps its pronoun, a thing its colour, what is lost is
// found, what is given away is missing from the count; so what a model learned can be judged.
//
// Story number `index` of `seed`: 60 to 200 words in a few lines, each ended by a line break. The
// same bytes on every machine.
std::string TellStory(uint64_t seed, uint64_t index);

// One line of that story, a question about it, and the answer, which stands in the line.
struct StoryQuestion {
  std::string passage, question, answer;
};
StoryQuestion AskAboutStory(uint64_t seed, uint64_t index);

// Whole stories 0, 1, 2, ... with an empty line between each two, until there are at least `bytes`
// of them, handed to `sink` one by one.
void GenerateStories(uint64_t seed, int64_t bytes,
                     const std::function<void(std::string_view)>& sink);

}  // namespace folio
