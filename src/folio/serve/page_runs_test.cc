#include "folio/serve/page_runs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "folio/base/clock.h"
#include "folio/io/model_dir.h"
#include "folio/model_files/checkpoint.h"
#include "folio/run/plot_runs.h"
#include "folio/run/run_directory.h"
#include "folio/serve/test_service.h"
#include "folio/train/run_log.h"
#include "folio/train/train_state.h"
#include "tests/kit/directory.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Runs "one" (as RunLog writes it) and "two", a damaged one.
class PageRunsTest : public PageTest {
 protected:
  PageRunsTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / fmt::format("folio_{}_{}", test->name(), ::getpid());
    fs::remove_all(dir_);
    fs::create_directories(dir_ / "one" / "steps" / "30");
    fs::create_directories(dir_ / "two");
    fs::create_directories(dir_ / "no run");
    Write(dir_ / "one" / kRunConfigFile, "[train]\nmax_steps = 100\nlr = 0.5\n");
    RunLog log(dir_ / "one", 0);
    for (int64_t step = 0; step < 60; ++step) {
      log.Write({.step = step,
                 .loss = step == 7 ? std::nan("") : 5 - 0.05 * static_cast<double>(step),
                 .lr = 0.001,
                 .tokens = 64 * (step + 1),
                 .tokens_per_second = 128,
                 .seconds = 0.5 * static_cast<double>(step),
                 .time = 1000 + static_cast<double>(step),
                 .val_loss = step % 20 == 0 ? std::optional(4.5) : std::nullopt});
    }
    Write(dir_ / "two" / kMetricsFile,
          "{\"step\":0,\"loss\":3}\nnot json\n{\"step\":\"x\"}\n[1]\n{\"step\":1,\"loss\":2,"
          "\"ended_by\":\"patience\"}\n{\"step\":2,\"lo");
  }
  ~PageRunsTest() override {
    Stop();
    fs::remove_all(dir_);
  }
  static void Write(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  void Append(const std::string& run, const std::string& text) const {
    std::ofstream(dir_ / run / kMetricsFile, std::ios::app) << text;
  }
  void Begin() {
    ServiceOptions options;
    options.page.runs = {dir_};
    options.page.streams = 3;
    Serve(options);
  }
  Json RunOf(const std::string& id) const {
    const Json all = Get("/api/runs");
    for (const Json& run : all["runs"]) {
      if (run["id"] == Json(id)) return run;
    }
    ADD_FAILURE() << "no run " << id;
    return {};
  }
  // The first `count` events of a stream.
  std::vector<PageEvent> Listen(size_t count, const std::string& last = "",
                                const std::function<void()>& begun = {}) const {
    std::string body;
    std::vector<PageEvent> events;
    HttpClient::Headers headers;
    if (!last.empty()) headers.emplace_back("Last-Event-ID", last);
    bool told = false;
    const double end = SteadySeconds() + 30;  // not forever for what never comes
    NewClient().Ask("GET", "/api/events", "", headers, [&](std::string_view piece) {
      body += piece;
      events = EventsOf(body.substr(0, body.rfind("\n\n") + 2));
      if (!std::exchange(told, true) && begun) begun();
      return events.size() < count && SteadySeconds() < end;
    });
    EXPECT_GE(events.size(), count);
    events.resize(count);
    return events;
  }

  fs::path dir_;
};

TEST_F(PageRunsTest, AreListedAsFarAsTheyHaveCome) {
  Begin();
  EXPECT_EQ(Get("/api/runs")["runs"].size(), 2u);
  const Json one = RunOf("one"), two = RunOf("two");
  EXPECT_EQ(one["state"], "stopped");
  EXPECT_EQ(one["step"], 59);
  EXPECT_EQ(one["max_steps"], 100);
  EXPECT_EQ(one["loss"], 5 - 0.05 * 59);
  EXPECT_EQ(one["val_loss"], 4.5);
  EXPECT_FALSE(one.contains("eta"));
  EXPECT_EQ(two["state"], "ended");
  EXPECT_EQ(two["step"], 1) << "what is damaged or torn is no row";
  EXPECT_EQ(two["loss"], 2);
  EXPECT_EQ(two["ended_by"], "patience");
  EXPECT_NEAR(two["updated"].get<double>(), WallSeconds(), 600) << "without a config.toml, too";
  {
    const RunLock lock(dir_ / "one");
    const Json running = RunOf("one");
    EXPECT_EQ(running["state"], "running");
    EXPECT_EQ(running["eta"], 20) << "40 steps of half a second";
  }
  EXPECT_EQ(RunOf("one")["state"], "stopped");
  Append("one", "{\"step\":99,\"loss\":1}\n");
  EXPECT_EQ(RunOf("one")["state"], "ended");
  EXPECT_EQ(Get("/api/info")["features"][4], "runs");
}

TEST_F(PageRunsTest, WhatIsLeftIsByTheLastSteps) {
  Begin();
  const RunLock lock(dir_ / "one");
  std::string rows;
  for (int step = 60; step < 70; ++step) {
    rows += fmt::format("{{\"step\":{},\"loss\":1,\"seconds\":{}}}\n", step, 30 + 2 * (step - 60));
  }
  Append("one", rows);
  EXPECT_NEAR(RunOf("one")["eta"].get<double>(), 30 * (48.0 / 69), 1e-3);
  // The speed is that of a hundred rows, not of those before them.
  Write(dir_ / "one" / kMetricsFile, "");
  rows.clear();
  for (int step = 0; step < 90; ++step) {
    rows += fmt::format("{{\"step\":{},\"loss\":1,\"seconds\":{}}}\n", step, 100 * step);
  }
  for (int i = 0; i <= 100; ++i) {
    rows += fmt::format("{{\"step\":90,\"loss\":1,\"seconds\":{}}}\n", 9000 + i);
  }
  rows += "{\"step\":95,\"loss\":1,\"seconds\":9110}\n";
  Append("one", rows);
  EXPECT_NEAR(RunOf("one")["eta"].get<double>(), 4 * (9110 - 9001) / 5.0, 1e-2);
  // The speed is that of the only row there is.
  Write(dir_ / "one" / kMetricsFile, "{\"step\":0,\"loss\":1,\"seconds\":3}\n");
  EXPECT_EQ(RunOf("one")["eta"], 297);
}

TEST_F(PageRunsTest, OneIsToldWithItsSettings) {
  Begin();
  const Json one = Get("/api/runs/one");
  EXPECT_EQ(one["config"]["train.max_steps"], "100");
  EXPECT_EQ(one["config"]["train.lr"], "0.5");
  EXPECT_EQ(one["keys"], Json::array({"loss", "val_loss", "lr", "tokens_per_second"}));
  EXPECT_EQ(one["events"].dump(),
            R"([{"step":30,"event":"checkpoint","text":"steps/30"},)"
            R"({"step":0,"event":"begun","text":""},)"
            R"({"step":0,"event":"best","text":"held-out loss 4.5"},)"
            R"({"step":59,"event":"stopped","text":"folio train --resume continues it"}])");
  EXPECT_EQ(one["files"].size(), 3u);
  EXPECT_EQ(
      Get("/api/runs/two")["events"].dump(),
      R"([{"step":0,"event":"begun","text":""},{"step":1,"event":"ended","text":"patience"}])");
}

TEST_F(PageRunsTest, NothingElseIsARun) {
  Begin();
  Write(dir_ / "secret", "x");
  for (const char* id : {"three", "no%20run", "..", ".", "..%2Fone", "%2Fetc", "", "secret",
                         "one%00", "steps", "one%2Fsteps", "%FF"}) {
    for (const char* what : {"", "/series", "/samples"}) {
      const Answer answer = Ask("GET", std::string("/api/runs/") + id + what);
      EXPECT_TRUE(answer.status == 404 || answer.status == 400) << id << what << answer.status;
    }
  }
}

TEST_F(PageRunsTest, ShortSeriesAreTheRowsOfTheLog) {
  Begin();
  const Json json = Get("/api/runs/one/series?keys=loss,val_loss,grad_norm&x=tokens");
  EXPECT_EQ(json["n_raw"], 60);
  const std::vector<StepMetrics> log = ReadRunLog(dir_ / "one");
  const Json& loss = json["keys"]["loss"];
  EXPECT_EQ(loss["raw"], true);
  ASSERT_EQ(loss["x"].size(), log.size());
  for (size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(loss["x"][i], log[i].tokens);
    if (i == 7) {
      EXPECT_EQ(loss["mean"][i], "nan");
    } else {
      EXPECT_NEAR(loss["mean"][i].get<double>(), *log[i].loss, 1e-5);
    }
    EXPECT_EQ(loss["min"][i], loss["max"][i]);
  }
  EXPECT_EQ(json["keys"]["val_loss"]["x"].dump(), "[64.0,1344.0,2624.0]");
  EXPECT_EQ(json["keys"]["grad_norm"]["n"], 0);
}

TEST_F(PageRunsTest, LongSeriesAreBucketsOfMeanAndExtremes) {
  Begin();
  const Json json = Get("/api/runs/one/series?keys=loss&px=16&from=4&to=51");
  EXPECT_EQ(json["n_raw"], 48);
  const Json& loss = json["keys"]["loss"];
  EXPECT_EQ(loss["raw"], false);
  EXPECT_EQ(loss["n"], 48);
  ASSERT_EQ(loss["x"].size(), 16u);
  size_t step = 4;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(loss["x"][i], step);
    double sum = 0, low = 100, high = 0, count = 0;
    const double end = i == 15 ? 52 : 4 + 47.0 / 16 * static_cast<double>(i + 1);
    for (; static_cast<double>(step) < end; ++step) {
      if (step == 7) continue;  // a loss that is no number
      const double value = 5 - 0.05 * static_cast<double>(step);
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
      ++count;
    }
    EXPECT_NEAR(loss["mean"][i].get<double>(), sum / count, 1e-5) << i;
    EXPECT_NEAR(loss["min"][i].get<double>(), low, 1e-5);
    EXPECT_NEAR(loss["max"][i].get<double>(), high, 1e-5);
  }
}

TEST_F(PageRunsTest, SeriesGrowAndBeginAnewWithTheLog) {
  Begin();
  const auto rows = [&] { return Get("/api/runs/one/series")["n_raw"].get<int64_t>(); };
  EXPECT_EQ(rows(), 60);
  Append("one", "{\"step\":60,\"loss\":1}\n{\"step\":61,");
  EXPECT_EQ(rows(), 61);
  Append("one", "\"loss\":1}\n");
  EXPECT_EQ(rows(), 62);
  CutLines(dir_ / "one" / kMetricsFile, 10);
  EXPECT_EQ(rows(), 10);
}

TEST_F(PageRunsTest, SeriesRefuseWhatTheyDoNotKnow) {
  Begin();
  for (const char* query : {"keys=step", "keys=", "keys=loss,", "x=loss", "px=15", "px=4001",
                            "from=a", "to=nan", "keys=loss,lr,loss,lr,loss,lr,loss"}) {
    const Answer answer = Ask("GET", std::string("/api/runs/one/series?") + query);
    if (std::string(query) != "keys=") ErrorOf(answer, 400);
  }
}

TEST_F(PageRunsTest, SamplesAreThoseOfTheFile) {
  Begin();
  EXPECT_EQ(Ask("GET", "/api/runs/one/samples").body, "[]");
  Write(dir_ / "one" / kSamplesFile,
        "{\"event\":\"sample\",\"step\":5,\"prompt\":\"a\",\"text\":\"b\\n\"}\nx\n{\"step\":9,");
  EXPECT_EQ(Ask("GET", "/api/runs/one/samples").body, R"([{"step":5,"text":"b\n","prompt":"a"}])");
}

TEST_F(PageRunsTest, EventsAreTheRowsThatAreAppended) {
  Begin();
  const auto events = Listen(2, "", [&] {
    Append("one", "{\"step\":60,\"loss\":1.5}\ndamaged\n{\"step\":61,\"loss\":1.25}\n");
  });
  EXPECT_EQ(events[0].name, "server");
  EXPECT_EQ(events[0].data["resumed"], false);
  EXPECT_EQ(events[1].name, "run.append");
  EXPECT_EQ(events[1].data["run"], "one");
  EXPECT_EQ(events[1].data["rows"].dump(), R"([{"step":60,"loss":1.5},{"step":61,"loss":1.25}])");
  EXPECT_GT(std::stoll(events[1].id), std::stoll(events[0].id));
}

TEST_F(PageRunsTest, WhoComesBackMissesNothingAndHearsNothingTwice) {
  Begin();
  const auto first = Listen(2, "", [&] { Append("one", "{\"step\":60,\"loss\":1}\n"); });
  Append("one", "{\"step\":61,\"loss\":1}\n");
  Append("two", "\n{\"step\":3,\"loss\":1}\n");
  const auto again = Listen(3, first[1].id);
  EXPECT_EQ(again[0].data["resumed"], true);
  EXPECT_EQ(again[1].data["rows"].size() + again[2].data["rows"].size(), 2u);
  EXPECT_EQ(again[1].data["rows"][size_t{0}]["step"], 61);
  EXPECT_EQ(again[2].data["rows"][size_t{0}]["step"], 3);
  const auto all = Listen(4, first[0].id);
  EXPECT_EQ(all[1].data["rows"][size_t{0}]["step"], 60);
  EXPECT_EQ(Listen(1, "1")[0].data["resumed"], false) << "of an earlier service";
  EXPECT_EQ(Listen(1, "x")[0].data["resumed"], false);
}

TEST_F(PageRunsTest, EventsTellWhatBecomesOfRuns) {
  Begin();
  const auto next = [](const std::vector<PageEvent>& events) {
    EXPECT_EQ(events[1].name, "run.state");
    return events[1].data;
  };
  const auto begun = Listen(2, "", [&] {
    fs::create_directories(dir_ / "three");
    Write(dir_ / "three" / kMetricsFile, "{\"step\":0}\n");
  });
  EXPECT_EQ(next(begun)["run"], "three");
  EXPECT_EQ(next(begun)["rewound"], false);
  const auto cut = Listen(2, begun[1].id, [&] { CutLines(dir_ / "one" / kMetricsFile, 10); });
  EXPECT_EQ(next(cut)["run"], "one");
  EXPECT_EQ(next(cut)["rewound"], true);
  EXPECT_EQ(next(cut)["step"], 9);
  std::optional<RunLock> lock;
  const auto running = Listen(2, cut[1].id, [&] { lock.emplace(dir_ / "one"); });
  EXPECT_EQ(next(running)["state"], "running");
  const auto gone = Listen(2, running[1].id, [&] { fs::remove_all(dir_ / "three"); });
  EXPECT_EQ(next(gone)["run"], "three");
  EXPECT_EQ(next(gone)["state"], "gone");
}

// The list that it shows may have a run that came since runs were last looked for.
TEST_F(PageRunsTest, WhoBeginsHearsOfTheEndOfARunThatJustCame) {
  Begin();
  Listen(1);
  fs::create_directories(dir_ / "three");
  Write(dir_ / "three" / kMetricsFile, "{\"step\":0}\n");
  const auto gone = Listen(2, "", [&] { fs::remove_all(dir_ / "three"); });
  EXPECT_EQ(gone[1].data["run"], "three");
  EXPECT_EQ(gone[1].data["state"], "gone");
}

TEST_F(PageRunsTest, EventsTellWhatIsLeftOfARunThatTrains) {
  Begin();
  const RunLock lock(dir_ / "one");
  const auto events =
      Listen(3, "", [&] { Append("one", "{\"step\":60,\"loss\":1,\"seconds\":30}\n"); });
  EXPECT_EQ(events[1].name, "run.append");
  EXPECT_EQ(events[2].name, "run.state");
  EXPECT_EQ(events[2].data["run"], "one");
  EXPECT_EQ(events[2].data["state"], "running");
  EXPECT_EQ(events[2].data["eta"], 19.5);
}

TEST_F(PageRunsTest, AreFoundOnThePageByTheirDirectory) {
  EXPECT_EQ(PageUrlPath("runs/first/"), "/#/runs?r=first");
  EXPECT_EQ(PageUrlPath("/tmp/a b&c+\xC3\xA9"), "/#/runs?r=a%20b%26c%2B%C3%A9");
  EXPECT_EQ(PageUrlPath("."), PageUrlPath(fs::current_path()));
}

TEST_F(PageRunsTest, StreamsAreFewAndEndWithTheService) {
  Begin();
  std::vector<std::thread> listeners;
  std::atomic<int> listening = 0, ended = 0;
  for (int i = 0; i < 3; ++i) {
    listeners.emplace_back([&] {
      NewClient().Ask("GET", "/api/events", "", {}, [&](std::string_view) {
        ++listening;
        return true;
      });
      ++ended;
    });
  }
  while (listening < 3) std::this_thread::yield();
  ErrorOf(Ask("GET", "/api/events"), 429);
  EXPECT_EQ(ended, 0);
  Stop();
  for (std::thread& listener : listeners) listener.join();
}

TEST_F(PageRunsTest, TheEndOfARunIsToldByAServiceThatEndsWithIt) {
  Begin();
  std::vector<PageEvent> events;
  std::atomic<bool> begun = false;
  std::thread listener([&] {
    std::string body;
    NewClient().Ask("GET", "/api/events", "", {}, [&](std::string_view piece) {
      body += piece;
      begun = true;
      return true;
    });
    events = EventsOf(body);
  });
  while (!begun) std::this_thread::yield();
  Append("one", "{\"step\":60,\"loss\":1.5,\"ended_by\":\"max_steps\"}\n");
  Stop();
  listener.join();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(std::as_const(events)[1].data["rows"][size_t{0}]["step"], 60);
}

TEST_F(PageRunsTest, AStreamsPlaceIsFreeWhenItsReaderHangsUp) {
  Begin();
  for (int i = 0; i < 8; ++i) {
    int status = 0;
    while (status != 200) {
      status = NewClient()
                   .Ask("GET", "/api/events", "", {}, [](std::string_view) { return false; })
                   .status;
    }
  }
}

TEST_F(PageRunsTest, ARunOfItselfAndRunsAloneAreServed) {
  ServiceOptions options;
  options.page.runs = {dir_ / "two"};
  Service service(options, {});
  const auto ask = [&](const std::string& path) {
    return service.Answer(LocalRequest("GET", path));
  };
  EXPECT_EQ(ParseJson(ask("/api/runs").body, "runs")["runs"].size(), 1u);
  EXPECT_EQ(ask("/api/runs/two").status, 200);
  EXPECT_EQ(RunRegistry(std::vector{dir_ / "two" / ""}).List().at(0).id, "two");
  const Json info = ParseJson(ask("/api/info").body, "info");
  EXPECT_TRUE(info["model"].is_null());
  EXPECT_EQ(info["features"], Json::array({"runs"}));
  EXPECT_EQ(ask("/api/vocab").status, 404);
}

TEST_F(PageRunsTest, WhoIsTooSlowIsToldToBeginAnew) {
  RunRegistry registry({dir_});
  RunEvents events(registry);
  RunEvents::Place place = events.Begin({});
  for (int i = 0; i < 3; ++i) {
    Append("one", "{\"step\":60,\"loss\":1}\n{\"step\":60,\"text\":\"" + std::string(100'000, 'x') +
                      "\"}\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(260));
    RunEvents::Place other = events.Begin({});
    EXPECT_TRUE(events.News(other).empty());
  }
  EXPECT_FALSE(events.News(place).empty());
  EXPECT_TRUE(events.News(place).empty());
  // More than anybody waits for: all are to fetch it anew.
  Append("one", std::string(2 << 20, '\n') + "{\"step\":61}\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(260));
  const std::vector<RunEvents::Event> news = events.News(place);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(news[0].text.find("\"rewound\":true"), std::string::npos);
}

// A run of strangers keeps nobody waiting, takes no memory, and is told what is wrong with it.
TEST_F(PageRunsTest, ARunThatCannotBeReadIsListedAsSuch) {
  const std::pair<const char*, const char*> kinds[] = {{"pipe", "it is a pipe"},
                                                       {"zero", "it is a device"},
                                                       {"directory", "Is a directory"},
                                                       {"hole", "1099511627776 bytes"},
                                                       {"loop", "symbolic links"}};
  for (const char* file : {kMetricsFile, kRunConfigFile, kSamplesFile}) {
    for (const auto& [kind, cause] : kinds) {
      const fs::path run = dir_ / (std::string(kind) + "." + file);
      fs::create_directories(run);
      const fs::path at = run / file;
      if (kind == std::string("pipe")) {
        ASSERT_EQ(mkfifo(at.c_str(), 0600), 0);
      } else if (kind == std::string("zero")) {
        fs::create_symlink("/dev/zero", at);
      } else if (kind == std::string("directory")) {
        fs::create_directory(at);
      } else if (kind == std::string("loop")) {
        fs::create_symlink(at, at);
      } else {
        Write(at, "");
        fs::resize_file(at, uintmax_t{1} << 40);
      }
      if (file == std::string(kSamplesFile)) Write(run / kMetricsFile, "{\"step\":0}\n");
    }
  }
  Begin();
  EXPECT_FALSE(RunOf("one").contains("problem"));
  for (const char* file : {kMetricsFile, kRunConfigFile, kSamplesFile}) {
    for (const auto& [kind, cause] : kinds) {
      const std::string id = std::string(kind) + "." + file;
      const Json run = RunOf(id);
      if (file == std::string(kSamplesFile)) {
        EXPECT_FALSE(run.contains("problem")) << id;
      } else {
        ASSERT_TRUE(run.contains("problem")) << id;
        EXPECT_TRUE(Contains(run["problem"].text(), file, cause)) << id;
        EXPECT_FALSE(Contains(run["problem"].text(), dir_.string())) << "no place of the service";
      }
      const Json whole = Get("/api/runs/" + id);
      EXPECT_EQ(whole.contains("problem"), run.contains("problem")) << id;
      EXPECT_EQ(Ask("GET", "/api/runs/" + id + "/series?keys=loss").status, 200) << id;
      EXPECT_EQ(Ask("GET", "/api/runs/" + id + "/samples").status, 200) << id;
    }
  }
  // The pipe that was in the way is gone.
  fs::remove(dir_ / "pipe.metrics.jsonl" / kMetricsFile);
  Append("pipe.metrics.jsonl", "{\"step\":3,\"loss\":1}\n");
  EXPECT_FALSE(RunOf("pipe.metrics.jsonl").contains("problem"));
  EXPECT_EQ(RunOf("pipe.metrics.jsonl")["step"], 3);
}

TEST_F(PageRunsTest, EventsTellOfARunThatCannotBeReadAnyMore) {
  Begin();
  const auto events = Listen(2, "", [&] {
    fs::remove(dir_ / "two" / kMetricsFile);
    ASSERT_EQ(mkfifo((dir_ / "two" / kMetricsFile).c_str(), 0600), 0);
  });
  EXPECT_EQ(events[1].name, "run.state");
  EXPECT_EQ(events[1].data["run"], "two");
  EXPECT_TRUE(Contains(events[1].data["problem"].text(), "it is a pipe"));
}

// A run of which a checkpoint of `step` lies there, as training leaves it.
void PutCheckpoint(const fs::path& run, int64_t step, uint64_t seed) {
  const OpenedModel model = SmallModel();
  Scatter(*model.weights, seed);
  fs::create_directories(run / kLastDir);
  SaveModel(run / kLastDir, *model.weights);
  model.tokenizer->Save(run / kLastDir);
  SaveTrainState(run / kLastDir, {.step = step}, model.weights->table(), {});
}

TEST_F(PageRunsTest, ACheckpointOfARunIsOpenedAsAModel) {
  Begin();
  ErrorOf(Post("/api/runs/none/open", Json::object()), 404);
  EXPECT_EQ(Post("/api/runs/two/open", Json::object()).json()["error"]["code"], "no_checkpoint");
  PutCheckpoint(dir_ / "two", 7, 1);
  const Json first = Post("/api/runs/two/open", Json::object()).json();
  EXPECT_EQ(first["model"], "two@7");
  EXPECT_EQ(first["step"], 7);
  EXPECT_EQ(Post("/api/runs/two/open", Json::object()).json()["id"], first["id"]);
  const Json body{{"model", "two@7"}, {"prompt", "a"}, {"max_tokens", 3}};
  EXPECT_EQ(Post("/v1/completions", body).status, 200);
  const std::string trace =
      Post("/api/trace", {{"model", "two@7"}, {"text", "ab"}}).json()["trace"].text();
  const std::string scores = "/api/trace/" + trace + "/scores";
  EXPECT_EQ(Ask("GET", scores).status, 200);
  // A later one takes its place.
  PutCheckpoint(dir_ / "two", 9, 2);
  EXPECT_EQ(Post("/api/runs/two/open", Json::object()).json()["model"], "two@9");
  EXPECT_EQ(Post("/v1/completions", body).json()["error"]["code"], "model_not_found");
  EXPECT_EQ(Ask("GET", scores).json()["error"]["code"], "no_trace") << "its model is gone";
  EXPECT_EQ(Get("/api/info")["models"], Json::array({"small", "talker", "two@9"}));
}

TEST_F(PageRunsTest, ADamagedCheckpointIsToldWithoutItsPath) {
  Begin();
  PutCheckpoint(dir_ / "two", 7, 1);
  Write(dir_ / "two" / kLastDir / kWeightsFile, "not a model");
  const Answer answer = Post("/api/runs/two/open", Json::object());
  EXPECT_EQ(answer.json()["error"]["code"], "bad_checkpoint");
  EXPECT_EQ(ErrorOf(answer, 500).find(dir_.string()), std::string::npos) << answer.body;
  EXPECT_EQ(Get("/api/info")["models"].size(), 2u);
}

TEST_F(PageRunsTest, OfManyOpenedRunsTheNewestStay) {
  Begin();
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    fs::create_directories(dir_ / name);
    Write(dir_ / name / kRunConfigFile, "[train]\nmax_steps = 100\n");
    PutCheckpoint(dir_ / name, 1, 1);
    EXPECT_EQ(Post(fmt::format("/api/runs/{}/open", name), Json::object()).status, 200);
  }
  EXPECT_EQ(Get("/api/info")["models"],
            Json::array({"small", "talker", "b@1", "c@1", "d@1", "e@1"}));
}

TEST_F(PageRunsTest, OnlyTheProcessThatTrainsARunStopsIt) {
  Begin();
  EXPECT_EQ(Post("/api/runs/one/stop", Json::object()).json()["error"]["code"], "not_running");
  {
    const RunLock lock(dir_ / "one");
    EXPECT_EQ(Post("/api/runs/one/stop", Json::object()).json()["error"]["code"], "not_own_run");
  }
  Stop();
  int stopped = 0;
  ServiceOptions options;
  options.page.runs = {dir_};
  options.page.stop_training = [&] { ++stopped; };
  Serve(std::move(options));
  const RunLock lock(dir_ / "one");
  EXPECT_EQ(Ask("GET", "/api/runs/one/stop").status, 405);
  EXPECT_EQ(Ask("POST", "/api/runs/one/stop", "{}", {{"Origin", "http://evil.example"}}).status,
            403);
  ErrorOf(Post("/api/runs/none/stop", Json::object()), 404);
  EXPECT_EQ(stopped, 0);
  EXPECT_EQ(Post("/api/runs/one/stop", Json::object()).status, 202);
  EXPECT_EQ(stopped, 1);
  EXPECT_TRUE(Get("/api/info")["features"].dump().find("\"stop\"") != std::string::npos);
}

}  // namespace
}  // namespace folio
