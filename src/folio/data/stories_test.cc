#include "folio/data/stories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "folio/data/story_words.h"

namespace folio {
namespace {

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

bool Has(const std::vector<std::string>& words, std::initializer_list<const char*> any) {
  return std::any_of(any.begin(), any.end(), [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  });
}

const std::vector<std::string>& Stories() {
  static const std::vector<std::string> stories = [] {
    std::vector<std::string> told;
    for (uint64_t i = 0; i < 3000; ++i) told.push_back(TellStory(5, i));
    return told;
  }();
  return stories;
}

TEST(Stories, TheCorpusIsTheStoriesWithEmptyLinesBetween) {
  std::string corpus;
  GenerateStories(5, 3000, [&](std::string_view piece) { corpus += piece; });
  EXPECT_GE(corpus.size(), 3000u);
  EXPECT_LT(corpus.size(), 3000u + 2000u);
  EXPECT_TRUE(corpus.starts_with(Stories()[0] + "\n" + Stories()[1] + "\n"));
  EXPECT_TRUE(corpus.ends_with(".\n") || corpus.ends_with("\"\n"))
      << corpus.substr(corpus.size() - 20);
}

TEST(Stories, SeedsTellDifferentStoriesAndTheSameSeedTheSame) {
  EXPECT_EQ(TellStory(1, 7), TellStory(1, 7));
  EXPECT_NE(TellStory(1, 7), TellStory(2, 7));
  EXPECT_NE(TellStory(1, 7), TellStory(1, 8));
}

TEST(Stories, FewAreToldTwice) {
  const std::set<std::string> different(Stories().begin(), Stories().end());
  EXPECT_GT(different.size(), Stories().size() * 99 / 100);
}

TEST(Stories, AreOfTheRightLengthAndWellFormed) {
  for (const std::string& story : Stories()) {
    const auto words =
        std::count(story.begin(), story.end(), ' ') + std::count(story.begin(), story.end(), '\n');
    EXPECT_GE(words, 60) << story;
    EXPECT_LE(words, 200) << story;
    for (const char* bad : {"  ", " .", " ,", " !", " ?", "..", ".,", "{", "}", "[", "]", "|", "~",
                            "\n\n", " \n", "\n ", ".\"?", "?."}) {
      EXPECT_EQ(story.find(bad), std::string::npos) << bad << " in " << story;
    }
    EXPECT_TRUE(std::all_of(story.begin(), story.end(),
                            [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    size_t begin = 0;
    while (begin < story.size()) {
      const size_t end = story.find('\n', begin);
      const std::string line = story.substr(begin, end - begin);
      EXPECT_EQ(std::count(line.begin(), line.end(), '"') % 2, 0) << line;
      EXPECT_NE(std::string(".!?\"").find(line.back()), std::string::npos) << line;
      EXPECT_TRUE(line[0] == '"' || (line[0] >= 'A' && line[0] <= 'Z')) << line;
      begin = end + 1;
    }
  }
}

TEST(Stories, SentencesBeginWithCapitals) {
  for (const std::string& story : Stories()) {
    for (size_t i = 0; i + 2 < story.size(); ++i) {
      if (story[i] != '.' || story[i + 1] != ' ') continue;
      const char next = story[i + 2] == '"' ? story[i + 3] : story[i + 2];
      EXPECT_TRUE(next >= 'A' && next <= 'Z') << story.substr(i > 20 ? i - 20 : 0, 50);
    }
  }
}

TEST(Stories, ArticlesFitTheNextWord) {
  for (const std::string& story : Stories()) {
    const std::vector<std::string> words = Words(story);
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const bool vowel = std::string("aeiou").find(words[i + 1][0]) != std::string::npos;
      if (words[i] == "a" || words[i] == "A") {
        EXPECT_FALSE(vowel) << words[i] << " " << words[i + 1];
      } else if (words[i] == "an" || words[i] == "An") {
        EXPECT_TRUE(vowel) << words[i] << " " << words[i + 1];
      }
    }
  }
}

// If all characters have one sex, pronouns of the other refer to nobody.
TEST(Stories, PronounsFitTheNames) {
  int checked = 0;
  for (const std::string& story : Stories()) {
    const std::vector<std::string> words = Words(story);
    bool she = Has(words, {"mom", "grandma"});
    bool he = Has(words, {"dad", "grandpa"});
    for (const internal::Named& child : internal::kChildren) {
      if (Has(words, {std::string(child.name).c_str()})) (child.she ? she : he) = true;
    }
    for (const internal::Named& animal : internal::kAnimals) {
      if (Has(words, {std::string(animal.name).c_str()})) (animal.she ? she : he) = true;
    }
    ASSERT_TRUE(she || he) << story;
    if (she && he) continue;
    ++checked;
    EXPECT_EQ(Has(words, {"he", "He", "him", "his", "His"}), he) << story;
    EXPECT_EQ(Has(words, {"she", "She", "her", "Her"}), she) << story;
  }
  EXPECT_GT(checked, 500);
}

TEST(Stories, WhatIsLostIsFoundInItsColour) {
  int checked = 0;
  for (const std::string& story : Stories()) {
    const size_t gone = story.find(" was gone!");
    if (gone == std::string::npos) continue;
    ++checked;
    const size_t begin = story.rfind(" The ", gone) + 5;
    const std::string thing = story.substr(begin, gone - begin);
    EXPECT_NE(story.find("found the " + thing, gone), std::string::npos) << story;
    for (const std::string_view colour : internal::kColours) {
      if (thing.starts_with(colour)) continue;
      EXPECT_FALSE(Has(Words(story), {std::string(colour).c_str()})) << story;
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(Stories, WhatIsGivenAwayIsMissingFromTheCount) {
  const std::span<const std::string_view> numbers = internal::kNumbers;
  const auto value = [&](const std::string& word) {
    return std::find(numbers.begin(), numbers.end(), word) - numbers.begin();
  };
  int checked = 0;
  for (const std::string& story : Stories()) {
    if (story.find("and so on, up to ") == std::string::npos) continue;
    ++checked;
    const auto after = [&](const std::string& text) {
      return value(Words(story.substr(story.find(text) + text.size()))[0]);
    };
    EXPECT_EQ(after("and so on, up to "), after("I gave ") + after("So I have ")) << story;
    EXPECT_GE(after("So I have "), 2) << story;
    EXPECT_EQ(after("You had "), after("and so on, up to ")) << story;
  }
  EXPECT_GT(checked, 100);
}

TEST(Stories, AnswersStandInTheLineThatIsAskedAbout) {
  constexpr uint64_t kStories = 600;
  std::set<std::string> questions;
  for (uint64_t index = 0; index < kStories; ++index) {
    const StoryQuestion asked = AskAboutStory(1, index);
    EXPECT_NE(TellStory(1, index).find(asked.passage + "\n"), std::string::npos);
    EXPECT_TRUE(asked.question.ends_with('?')) << asked.question;
    EXPECT_TRUE(asked.answer.ends_with('.')) << asked.answer;
    for (const std::string& text : {asked.question, asked.answer}) {
      EXPECT_EQ(text.find_first_of("{}[]~"), std::string::npos) << text;
    }
    const std::vector<std::string> question = Words(asked.question), line = Words(asked.passage);
    bool told = false;  // something that is not in the question
    for (const std::string& word : Words(asked.answer)) {
      told = told || (Has(line, {word.c_str()}) && !Has(question, {word.c_str()}));
    }
    EXPECT_TRUE(told) << asked.passage << "\n" << asked.question << "\n" << asked.answer;
    questions.insert(asked.question);
    EXPECT_EQ(AskAboutStory(1, index).answer, asked.answer);
  }
  EXPECT_GT(questions.size(), kStories / 3);
}

TEST(Stories, TheVocabularyIsSmall) {
  std::set<std::string> vocabulary;
  for (const std::string& story : Stories()) {
    for (std::string word : Words(story)) {
      std::transform(word.begin(), word.end(), word.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      vocabulary.insert(word);
    }
  }
  EXPECT_GT(vocabulary.size(), 600u);
  EXPECT_LT(vocabulary.size(), 900u);
}

}  // namespace
}  // namespace folio
