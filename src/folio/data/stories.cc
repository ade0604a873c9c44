#include "folio/data/stories.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/rng.h"
#include "folio/data/story_words.h"

namespace folio {
namespace {

using namespace internal;  // the word lists

char Upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

std::string Capital(std::string text) {
  if (!text.empty()) text[0] = Upper(text[0]);
  return text;
}

bool IsVowel(char c) {
  return std::string_view("aeiouAEIOU").find(c) != std::string_view::npos;
}

// Composes one story: its cast, and the text so far.
class Teller {
 public:
  Teller(uint64_t seed, uint64_t index) : rng_(seed, RngStream(RngPurpose::kCorpus, index)) {}

  std::string Tell() {
    CastPeople();
    CastThings();
    CastEvents();
    plot_ = Pick(Plots());
    for (std::string_view line : plot_.lines) {
      if (line[0] == '?') {
        if (Below(2) == 0) continue;
        line.remove_prefix(1);
      }
      if (line == "/") {
        text_ += '\n';
        continue;
      }
      if (!text_.empty() && text_.back() != '\n') text_ += ' ';
      text_ += Capital(FixArticles(Expand(line)));
    }
    return std::move(text_) + '\n';
  }

  // A question about the told story.
  StoryQuestion Ask(std::string_view story) {
    const Question& asked = Pick(plot_.questions);
    for (size_t line = 0; line < asked.line; ++line) story.remove_prefix(story.find('\n') + 1);
    return {.passage = std::string(story.substr(0, story.find('\n'))),
            .question = FixArticles(Expand(asked.question)),
            .answer = Capital(FixArticles(Expand(asked.answer)))};
  }

 private:
  size_t Below(size_t n) { return static_cast<size_t>(rng_.Below(draws_++, n)); }

  template <class List>
  auto Pick(const List& from) -> decltype(from[0]) {
    return from[Below(std::size(from))];
  }

  void Set(std::string_view part, std::string_view value) { cast_.emplace_back(part, value); }

  template <size_t N>
  void SetAll(const Row<N>& values, const Row<N>& parts) {
    for (size_t i = 0; i < N; ++i) Set(parts[i], values[i]);
  }

  std::string_view Part(std::string_view part) const {
    for (const auto& [name, value] : cast_) {
      if (name == part) return value;
    }
    FOLIO_CHECK(false, "a story names a part that nobody plays");
  }

  void CastPeople() {
    constexpr size_t kCount = std::size(kChildren);
    const size_t hero = Below(kCount);
    const size_t other = (hero + 1 + Below(kCount - 1)) % kCount;
    bool she = kChildren[hero].she;
    std::string hero_name(kChildren[hero].name);
    std::string kind = she ? "[little|young|small] girl" : "[little|young|small] boy";
    if (Below(5) == 0) {
      const Named& animal = Pick(kAnimals);
      she = animal.she;
      hero_name = animal.name;
      kind = "[little|young|small] " + std::string(animal.kind);
    }
    Set("H", hero_name);
    Set("Hs", hero_name + (hero_name.back() == 's' ? "'" : "'s"));
    Set("kind", Expand(kind));
    Set("he", she ? "she" : "he");
    Set("He", she ? "She" : "He");
    Set("him", she ? "her" : "him");
    Set("his", she ? "her" : "his");
    Set("His", she ? "Her" : "His");

    std::string friend_name(kChildren[other].name);
    std::string intro = Expand("[{his} friend|{his} friend|{his} neighbor] ") + friend_name;
    if (Below(4) == 0) {
      const Named& animal = Pick(kAnimals);
      if (animal.name != hero_name) {
        friend_name = animal.name;
        intro = friend_name + " the " + std::string(animal.kind);
      }
    }
    Set("F", friend_name);
    Set("Fs", friend_name + (friend_name.back() == 's' ? "'" : "'s"));
    Set("Fintro", intro);

    constexpr std::array<Named, 4> kAdults = {
        {{"mom", true}, {"dad", false}, {"grandma", true}, {"grandpa", false}}};
    const Named adult = kAdults[Below(kAdults.size())];
    Set("adult", adult.name);
    Set("Adult", Capital(std::string(adult.name)));
    Set("ahe", adult.she ? "she" : "he");
    Set("AHe", adult.she ? "She" : "He");
    Set("ahim", adult.she ? "her" : "him");
    Set("trait", Pick(kTraits));
  }

  void CastThings() {
    const auto coloured = [this](std::string_view part, std::string_view noun_part,
                                 std::span<const std::string_view> from) {
      const std::string_view noun = Pick(from);
      Set(part, std::string(Pick(kColours)) + " " + std::string(noun));
      Set(noun_part, noun);
    };
    coloured("thing", "noun", kThings);
    coloured("light", "lnoun", kLightThings);
    coloured("fragile", "fnoun", kFragileThings);
    Set("colour", Pick(kColours));

    const Row<2>& place = Pick(kPlaces);
    SetAll(place, {"at", "place"});
    Set("to", "to " + std::string(place[1]));
    constexpr size_t kCount = std::size(kSpots);
    const size_t first = Below(kCount);
    const size_t step = 1 + Below((kCount - 1) / 2);  // twice the step is no multiple of kCount
    Set("spot1", kSpots[first]);
    Set("Spot1", Capital(std::string(kSpots[first])));
    Set("spot2", kSpots[(first + step) % kCount]);
    Set("spot3", kSpots[(first + 2 * step) % kCount]);
    Set("weather", Pick(kWeathers));
    Set("food", Pick(kFoods));
    Set("snack", Pick(kSnacks));

    const Row<3>& pet = Pick(kPets);
    constexpr std::array<std::string_view, 4> kFur = {"gray", "brown", "white", "black"};
    SetAll(pet, {"petnoun", "petcried", "petfood"});
    Set("pet", Expand("[small|little|tiny] ") + std::string(kFur[Below(kFur.size())]) + " " +
                   std::string(pet[0]));
  }

  void CastEvents() {
    SetAll(Pick(kSkills), {"skill", "skilling", "failed", "did"});
    SetAll(Pick(kFears), {"fear", "scene", "truth", "end"});
    SetAll(Pick(kGifts), {"gift", "madeof", "use"});
    SetAll(Pick(kPlants), {"plant", "grew", "plantend"});
    SetAll(Pick(kNoises), {"noise", "source"});
    SetAll(Pick(kFoundGoods), {"box", "inside"});
    Set("owner", Pick(kOwners));

    // Some are given away and some remain, and never exactly one.
    const size_t n = 5 + Below(std::size(kNumbers) - 5);
    const size_t given = 2 + Below(n - 3);
    Set("n", kNumbers[n]);
    Set("m", kNumbers[given]);
    Set("rest", kNumbers[n - given]);
    Set("many", Pick(kCountables));
  }

  // Chooses the alternatives and fills in the parts, whose values may be templates too.
  std::string Expand(std::string_view line) {
    std::string out;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '{') {
        const size_t end = line.find('}', i);
        FOLIO_CHECK(end != std::string_view::npos, "a part is not closed");
        out += Expand(Part(line.substr(i + 1, end - i - 1)));
        i = end;
      } else if (line[i] == '[') {
        int depth = 1;
        size_t end = i + 1;
        while (end < line.size() && depth > 0) {
          depth += line[end] == '[' ? 1 : line[end] == ']' ? -1 : 0;
          ++end;
        }
        FOLIO_CHECK(depth == 0, "a choice is not closed");
        out += Expand(Choose(line.substr(i + 1, end - i - 2)));
        i = end - 1;
      } else {
        out += line[i];
      }
    }
    return out;
  }

  // Chooses one of the alternatives between brackets.
  std::string_view Choose(std::string_view inside) {
    std::vector<std::string_view> alternatives;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= inside.size(); ++i) {
      if (i == inside.size() || (inside[i] == '|' && depth == 0)) {
        alternatives.push_back(inside.substr(begin, i - begin));
        begin = i + 1;
      } else {
        depth += inside[i] == '[' ? 1 : inside[i] == ']' ? -1 : 0;
      }
    }
    return Pick(alternatives);
  }

  // "a~ " becomes "a " or "an ".
  static std::string FixArticles(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '~') {
        out += text[i];
      } else if (i + 2 < text.size() && IsVowel(text[i + 2])) {
        out += 'n';
      }
    }
    return out;
  }

  CounterRng rng_;
  uint64_t draws_ = 0;
  std::vector<std::pair<std::string_view, std::string>> cast_;
  Plot plot_;
  std::string text_;
};

}  // namespace

std::string TellStory(uint64_t seed, uint64_t index) {
  return Teller(seed, index).Tell();
}

StoryQuestion AskAboutStory(uint64_t seed, uint64_t index) {
  Teller teller(seed, index);
  return teller.Ask(teller.Tell());
}

void GenerateStories(uint64_t seed, int64_t bytes,
                     const std::function<void(std::string_view)>& sink) {
  int64_t written = 0;
  for (uint64_t index = 0; written < bytes; ++index) {
    const std::string story = (index == 0 ? "" : "\n") + TellStory(seed, index);
    sink(story);
    written += static_cast<int64_t>(story.size());
  }
}

}  // namespace folio
