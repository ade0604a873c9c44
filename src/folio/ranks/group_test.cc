#include "folio/ranks/group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <numeric>
#include <thread>

#include "folio/base/error.h"
#include "folio/ranks/join.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"
#include "tests/kit/thread_ranks.h"

namespace folio {

namespace {

// Sends each rank a different number, and sums what it receives.
class Numbers final : public AllToAll {
 public:
  template <class Ranks>
  Numbers(const Ranks& ranks, int round) : rank_(ranks.rank()) {
    for (int to = 0; to < ranks.size(); ++to) out_.push_back(1000 * round + 10 * rank_ + to);
    in_.resize(out_.size());
  }
  std::span<const std::byte> Outgoing(int to, int) const override {
    return std::as_bytes(std::span(&out_[static_cast<size_t>(to)], 1));
  }
  std::span<std::byte> Incoming(int from, int) override {
    return std::as_writable_bytes(std::span(&in_[static_cast<size_t>(from)], 1));
  }
  void Finish(int) override { sum = std::accumulate(in_.begin(), in_.end(), 0); }

  int sum = -1;

 private:
  int rank_;
  std::vector<int> out_, in_;
};

TEST(Group, AllToAllsAreDoneInTheirOrder) {
  for (const int ranks : {1, 2, 5}) {
    RunOnThreads(ranks, [&](Group& group) {
      std::vector<std::unique_ptr<Numbers>> rounds;
      std::vector<uint64_t> tickets;
      for (int round = 0; round < 20; ++round) {
        rounds.push_back(std::make_unique<Numbers>(group, round));
        tickets.push_back(group.Begin(*rounds.back()));
      }
      group.Wait(tickets.back());
      for (int round = 0; round < 20; ++round) {
        int expected = 0;
        for (int from = 0; from < ranks; ++from) {
          if (from != group.rank()) expected += 1000 * round + 10 * from + group.rank();
        }
        EXPECT_EQ(rounds[static_cast<size_t>(round)]->sum, expected);
      }
    });
  }
}

// One rank begins an all-to-all only after it has communicated: in a fixed order, all would wait
// forever.
TEST(Group, WhatIsNeededAtOnceOvertakes) {
  RunOnThreads(2, [](Group& group) {
    Numbers numbers(group, 1);
    uint64_t ticket = 0;
    if (group.first()) ticket = group.Begin(numbers);
    EXPECT_EQ(group.Broadcast("a"), "a");
    if (!group.first()) ticket = group.Begin(numbers);
    group.Wait(ticket);
    EXPECT_NE(numbers.sum, -1);
  });
  RunOnThreads(3, [](Group& group) {
    std::vector<std::unique_ptr<Numbers>> rounds;
    uint64_t ticket = 0;
    for (int round = 0; round < 30; ++round) {
      rounds.push_back(std::make_unique<Numbers>(group, round));
      ticket = group.Begin(*rounds.back());
      if (round % 5 == 0) {
        EXPECT_EQ(group.Broadcast("a"), "a");
      }
    }
    group.Wait(ticket);
    EXPECT_NE(rounds.back()->sum, -1);
  });
}

TEST(Group, GathersWhatEachRankSays) {
  RunOnThreads(3, [](Group& group) {
    const std::string mine(static_cast<size_t>(group.rank()), 'x');
    EXPECT_EQ(group.Gather(mine), (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_EQ(group.Broadcast(group.first() ? "hear" : "ignored"), "hear");
    const std::vector<std::vector<double>> all =
        GatherNumbers(group, std::vector<double>{group.rank() + 0.5});
    EXPECT_EQ(all, (std::vector<std::vector<double>>{{0.5}, {1.5}, {2.5}}));
    EXPECT_NE(group.NameOf(2).find("rank 2 ("), std::string::npos) << group.NameOf(2);
    EXPECT_GT(group.traffic().bytes_sent, 0u);
  });
}

TEST(Group, CommunicatorsOfBothKindsTakeTurns) {
  RunOnThreads(6, [](Group& group) {
    const Communicator tensor = TensorCommunicator(&group, 2), data = DataCommunicator(&group, 2);
    EXPECT_EQ(tensor.size(), 2);
    EXPECT_EQ(tensor.rank(), group.rank() % 2);
    EXPECT_EQ(data.size(), 3);
    EXPECT_EQ(data.rank(), group.rank() / 2);
    std::vector<std::unique_ptr<Numbers>> rounds;
    const auto ranks_of = [&](int round) { return round % 3 == 0 ? data : tensor; };
    for (int round = 0; round < 20; ++round) {
      rounds.push_back(std::make_unique<Numbers>(ranks_of(round), round));
      const uint64_t ticket = ranks_of(round).Begin(*rounds.back());
      if (round % 5 == 4) group.Gather("");
      if (round % 4 == 3 || round == 19) ranks_of(round).Wait(ticket);
    }
    for (int round = 0; round < 20; ++round) {
      const Communicator& communicator = ranks_of(round);
      int expected = 0;
      for (int from = 0; from < communicator.size(); ++from) {
        if (from != communicator.rank()) expected += 1000 * round + 10 * from + communicator.rank();
      }
      EXPECT_EQ(rounds[static_cast<size_t>(round)]->sum, expected) << round;
    }
    const std::vector<std::vector<int>> said = data.GatherNumbers(std::vector<int>{group.rank()});
    EXPECT_EQ(said.size(), 3u);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(said[static_cast<size_t>(i)][0], 2 * i + group.rank() % 2);
  });
}

TEST(Group, OneAloneIsAGroup) {
  Group group;
  EXPECT_TRUE(group.alone() && group.first());
  EXPECT_EQ(group.Gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(group.Broadcast("b"), "b");
  group.Abort(1);
}

void ExpectThatSilenceIsNamed(int dead) {
  ThreadRanks ranks(3);
  std::vector<std::string> errors(3);
  std::atomic<int> told = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Group group(ranks.Connect(rank), {.silence_seconds = 4, .on_lost = [&](const Error& error) {
                                          told += 1;
                                          EXPECT_EQ(error.cause(), "at step 7");
                                        }});
      group.set_progress("at step 7");
      group.Gather("all are here");
      if (rank == dead) ranks.Silence(rank);
      try {
        group.Gather("and now?");
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(told, 0);
  const std::string name = "rank " + std::to_string(dead) + " (";
  for (int rank = 0; rank < 3; ++rank) {
    // A rank that is cut off itself may report another one.
    if (rank == dead) continue;
    const std::string& error = errors[static_cast<size_t>(rank)];
    EXPECT_NE(error.find("has not responded for 4 s"), std::string::npos) << error;
    if (dead != 0 && rank != 0) continue;  // these only learned that the first one gave up
    EXPECT_NE(error.find(name), std::string::npos) << error;
  }
}

TEST(Group, ARankThatIsSilentIsNamed) {
  std::thread first(ExpectThatSilenceIsNamed, 0);  // both wait
  ExpectThatSilenceIsNamed(2);
  first.join();
}

TEST(Group, WhatOneRankThrowsComesOut) {
  EXPECT_THROW(RunOnThreads(2,
                            [](Group& group) {
                              if (!group.first()) throw UsageError("mine alone");
                              group.Gather("nobody answers");
                            },
                            {.silence_seconds = 1}),
               Error);
}

TEST(Broadcasts, AllHearTheFirst) {
  EXPECT_EQ(Broadcast(nullptr, "mine"), "mine");
  EXPECT_EQ(BroadcastResult(nullptr, [] { return "found"; }), "found");
  RunOnThreads(3, [](Group& group) {
    EXPECT_EQ(Broadcast(&group, std::to_string(group.rank())), "0");
    int calls = 0;
    const auto find = [&] { return "found " + std::to_string(++calls); };
    EXPECT_EQ(BroadcastResult(&group, find), "found 1");
    EXPECT_EQ(calls, group.first() ? 1 : 0);
  });
}

// Ranks that did not get it would wait for the first forever.
TEST(Broadcasts, AnErrorOfTheFirstIsOneOfAll) {
  RunOnThreads(3, [](Group& group) {
    const auto fail = []() -> std::string { throw InputError("nothing here", "a cause"); };
    EXPECT_TRUE(Contains(ErrorOf([&] { BroadcastResult(&group, fail); }, ErrorKind::kInput),
                         "nothing here: a cause"));
    EXPECT_EQ(Broadcast(&group, "on"), "on");
  });
}

}  // namespace

namespace {

TEST(Workers, AnswerTheirSharesUntilTheyAreSentHome) {
  for (const int ranks : {1, 2, 4}) {
    RunOnThreads(ranks, [&](Group& group) {
      Workers workers(&group);
      EXPECT_EQ(workers.ranks(), ranks);
      if (!workers.first()) {
        return workers.Serve([&](const std::string& share) {
          return share + " by " + std::to_string(group.rank());
        });
      }
      for (const std::string& word : {std::string("x"), std::string(), std::string(100000, 'y')}) {
        Strings shares, expected;
        for (int r = 0; r < ranks; ++r) {
          shares.push_back(word + std::to_string(r));
          expected.push_back(r == 0 ? "" : shares.back() + " by " + std::to_string(r));
        }
        workers.Scatter(shares);
        EXPECT_EQ(workers.Gather(), expected);
      }
    });
  }
}

TEST(Workers, OneAloneHasNone) {
  Workers workers(nullptr);
  workers.Scatter({"all"});
  EXPECT_EQ(workers.Gather(), Strings{""});
}

// And the others are released, whatever was in progress.
TEST(Workers, TheErrorOfTheFirstOfThemIsThrown) {
  RunOnThreads(4, [&](Group& group) {
    Workers workers(&group);
    if (!workers.first()) {
      return workers.Serve([&](const std::string&) -> std::string {
        if (group.rank() == 1) return "done";
        throw InputError("a.txt: " + std::to_string(group.rank()), "", "look");
      });
    }
    workers.Scatter(Strings(4));
    try {
      workers.Gather();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_STREQ(error.what(), "a.txt: 2");
      EXPECT_EQ(error.cause(), "");
      EXPECT_EQ(error.help(), "look");
    }
    workers.Scatter(Strings(4));
  });
}

}  // namespace

namespace {

Launcher Found(const std::map<std::string, std::string>& environment) {
  return FindLauncher([&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(Launchers, AreKnownByTheirEnvironment) {
  EXPECT_EQ(Found({}).name, "");
  EXPECT_EQ(Found({{"OMPI_COMM_WORLD_SIZE", "4"}}).mpi, "openmpi");
  EXPECT_EQ(Found({{"OMPI_COMM_WORLD_SIZE", "4"}}).ranks, 4);
  EXPECT_EQ(Found({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).mpi, "mpich");
  const std::map<std::string, std::string> srun = {
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "8"}};
  EXPECT_EQ(Found(srun).mpi, "");
  EXPECT_EQ(Found(srun).ranks, 8);
  auto pmix = srun;
  pmix["PMIX_RANK"] = "2";
  EXPECT_EQ(Found(pmix).mpi, "openmpi");
  EXPECT_EQ(Found(pmix).name, "srun");
  EXPECT_EQ(Found(pmix).ranks, 8);
  // The shell of a batch job is one process.
  EXPECT_EQ(Found({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}).name, "");
}

TEST(Same, TheFirstThatDiffersIsNamedWithItsDifferences) {
  RunOnThreads(3, [](Group& group) {
    RequireSame(group, "settings", "a = 1\nb = 2\n");
    const std::string mine = group.rank() == 2 ? "a = 1\nb = 3\nc = 4\n" : "a = 1\nb = 2\n";
    const std::string error =
        ErrorOf([&] { RequireSame(group, "settings", mine); }, ErrorKind::kUsage);
    EXPECT_TRUE(Contains(error, "rank 2 (", "different settings",
                         "'b = 3' there, 'b = 2' at rank 0", "c = 4"));
  });
}

}  // namespace

}  // namespace folio
