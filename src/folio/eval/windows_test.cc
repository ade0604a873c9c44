#include "folio/eval/windows.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/kit/expect.h"

namespace folio {
namespace {

std::vector<int32_t> Counted(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

TEST(Windows, PredictEveryTokenButTheFirstOnce) {
  for (const int64_t tokens : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 40}) {
    for (const int64_t context : {1, 2, 5, 8}) {
      for (int64_t stride = 1; stride <= context; ++stride) {
        const std::vector<int32_t> ids = Counted(tokens);
        int64_t next = 1;
        for (const TextWindow& w : CutWindows(ids, {context, stride})) {
          ASSERT_LE(std::ssize(w.ids), context);
          ASSERT_FALSE(w.targets.empty());
          EXPECT_EQ(w.begin, next);
          const int64_t base = w.begin - 1 - w.first;
          EXPECT_EQ(base % stride, 0);
          for (size_t i = 0; i < w.ids.size(); ++i) {
            EXPECT_EQ(w.ids[i], 100 + base + static_cast<int64_t>(i));
          }
          for (const int32_t target : w.targets) EXPECT_EQ(target, 100 + next++);
          EXPECT_LE(w.first + std::ssize(w.targets), std::ssize(w.ids));
          if (base > 0) {
            EXPECT_GE(w.first + 1, context - stride + 1);
          }
        }
        EXPECT_EQ(next, std::max<int64_t>(tokens, 1)) << tokens << " " << context << " " << stride;
      }
    }
  }
}

TEST(Windows, DoNotDependOnThePiecesOfTheText) {
  const std::vector<int32_t> ids = Counted(53);
  const std::vector<TextWindow> whole = CutWindows(ids, {8, 3});
  for (const size_t piece : {1u, 2u, 7u, 8u, 9u, 50u}) {
    std::vector<TextWindow> windows;
    WindowCutter cutter({8, 3}, [&](TextWindow w) { windows.push_back(std::move(w)); });
    for (int text = 0; text < 2; ++text) {  // a cutter begins anew
      windows.clear();
      for (size_t at = 0; at < ids.size(); at += piece) {
        cutter.Add(std::span(ids).subspan(at, std::min(piece, ids.size() - at)));
      }
      cutter.Finish();
      ASSERT_EQ(windows.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(windows[i].ids, whole[i].ids);
        EXPECT_EQ(windows[i].targets, whole[i].targets);
        EXPECT_EQ(windows[i].begin, whole[i].begin);
      }
    }
  }
}

TEST(Windows, WhatCannotBeIsRefused) {
  EXPECT_EQ(ChooseWindows(0, 0, 1024).context, 1024);
  EXPECT_EQ(ChooseWindows(0, 0, 1024).stride, 512);
  EXPECT_EQ(ChooseWindows(0, 0, 1).stride, 1);
  EXPECT_EQ(ChooseWindows(64, 64, 1024).stride, 64);
  EXPECT_TRUE(
      Contains(ErrorOf([] { ChooseWindows(65, 0, 64); }, ErrorKind::kUsage), "--context 65"));
  EXPECT_TRUE(
      Contains(ErrorOf([] { ChooseWindows(32, 33, 64); }, ErrorKind::kUsage), "--stride 33"));
}

// Python's len(re.split(r"\s+", text)), of which each number was asked there.
TEST(Words, AreThoseOfPythonsSplit) {
  const std::pair<std::string, int64_t> kTexts[] = {{"", 1},
                                                    {"a", 1},
                                                    {" ", 2},
                                                    {"a b", 2},
                                                    {"  a \n b\t", 4},
                                                    {"a\u00A0b", 2},
                                                    {"a\u3000\u2003b", 2},
                                                    {"a\u200Bb", 1},
                                                    {"a\x1C\x1D"
                                                     "b",
                                                     2},
                                                    {"a\u0085b", 2},
                                                    {"a\xFF b", 2}};
  for (const auto& [text, words] : kTexts) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      WordCounter counter;
      counter.Add(text.substr(0, cut));
      counter.Add(text.substr(cut));
      EXPECT_EQ(counter.Finish(), words) << text;
      EXPECT_EQ(counter.Finish(), 1);
    }
  }
}

}  // namespace
}  // namespace folio
