// Trains, resumes and generates through the library repeatedly in one process, beside a long `folio
// train`, and checks that memory, file handles and threads of both stay level. See --help.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "folio/infer/opened_model.h"
#include "folio/infer/text_streamer.h"
#include "folio/run/training_run.h"
#include "tests/soak/level.h"
#include "tests/torture/process.h"
#include "tests/torture/workloads.h"

namespace folio::soak {
namespace {

namespace fs = std::filesystem;
using torture::Now;

constexpr char kHelp[] =
    R"(usage: folio_soak [--minutes N] [--program FILE] [--directory DIR] [--json]

For N minutes [30] this process trains, resumes and writes through the library over and over, while a
`folio train` beside it trains, evaluates, samples and saves. A line each minute; at the end each of
the two must be level: in the last third of the time the median of its memory is at most 2 % and 4 MB
above that of the second third, and it has no more file handles or threads.
Exit status: 0 level, 1 not, 2 wrong usage.
)";

Reading ReadingOf(const std::string& process) {
  const auto count = [&](const char* what) {
    int64_t entries = 0;
    std::error_code gone;
    const fs::directory_iterator all("/proc/" + process + "/" + what, gone);
    for (const auto& entry : all) entries += entry.path().empty() ? 0 : 1;
    return entries;
  };
  Reading reading;
  std::ifstream status("/proc/" + process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) reading.megabytes = std::stod(line.substr(6)) / 1024;
  }
  reading.handles = count("fd");
  reading.threads = count("task");
  return reading;
}

// One round of an embedding program's work.
void TrainAndWrite(const fs::path& text, const fs::path& run) {
  for (const bool resume : {false, true}) {
    RunSettings settings;
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
             {"model.n_layer", "2"},
             {"model.n_head", "2"},
             {"model.n_embd", "32"},
             {"model.n_positions", "32"},
             {"model.resid_pdrop", "0.1"},
             {"train.batch_size", "4"},
             {"train.eval_every", "4"},
             {"train.eval_batches", "2"},
             {"train.threads", "2"},
             {"log.sample_every", "4"},
             {"log.sample_tokens", "16"},
             {"train.max_steps", resume ? "16" : "8"}}) {
      settings.Set(key, value);
    }
    TrainingRunOptions options{.out = run, .resume = resume, .overwrite = !resume};
    if (!resume) options.data = {text.string()};
    TrainingRun training(settings, options);
    training.Train();
  }
  const OpenedModel model = OpenModel(run);
  Generator generator(*model.backend, *model.weights);
  GenerateText(generator, *model.tokenizer, PromptTokens(*model.tokenizer, "a small "),
               {.max_tokens = 64}, /*rng_stream=*/0, [](std::string_view) { return true; });
}

struct Options {
  double minutes = 30;
  std::string program = FOLIO_PROGRAM;
  fs::path directory = fs::temp_directory_path() / ("folio-soak-" + std::to_string(getpid()));
  bool json = false;
};

std::string Shown(const std::string& name, const Reading& now) {
  return fmt::format("{} {:.1f} MB, {} handles, {} threads", name, now.megabytes, now.handles,
                     now.threads);
}

int Soak(const Options& options) {
  fs::create_directories(options.directory);
  const fs::path text = options.directory / "text.txt";
  std::ofstream(text) << torture::InputText();
  const double seconds = 60 * options.minutes, begin = Now();
  std::atomic<int> process = 0;
  torture::Start start{.command = {},
                       .directory = options.directory,
                       .output = options.directory / "output",
                       .signals = {{seconds, SIGTERM}},
                       .most_seconds = seconds + 60,
                       .process = &process};
  start.command = torture::Parts(
      options.program +
          " train --data text.txt --out long --no-config -q --set model.n_layer=2 model.n_head=2"
          " model.n_embd=64 model.n_positions=64 model.resid_pdrop=0.1 train.batch_size=8"
          " train.grad_accumulation=2 train.order=epochs train.max_steps=100000000"
          " train.decay_steps=1000 train.eval_every=50 train.eval_batches=4 "
          "train.checkpoint_every=20"
          " log.sample_every=50 train.threads=2",
      ' ');
  torture::Ended ended;
  std::thread watched([&] { ended = torture::Run(start); });

  std::vector<Reading> library, program;
  int64_t rounds = 0;
  double told = begin, read = begin;
  std::string failed;
  while (Now() - begin < seconds && failed.empty()) {
    try {
      TrainAndWrite(text, options.directory / "run");
    } catch (const std::exception& error) {
      failed = std::string("the library: ") + error.what();
    }
    rounds += 1;
    if (Now() - read < 0.5) continue;
    read = Now();
    library.push_back(ReadingOf("self"));
    program.push_back(ReadingOf(std::to_string(process)));
    if (Now() - told < 60) continue;
    told = Now();
    fmt::print("soak: {:.0f} min, {} rounds; {}; {}\n", (told - begin) / 60, rounds,
               Shown("library", library.back()), Shown("program", program.back()));
    std::fflush(stdout);
  }
  if (!failed.empty()) kill(process, SIGKILL);
  watched.join();
  if (failed.empty() && ended.status != 128 + SIGTERM) {
    failed = "the program " + ended.How() + ": " + ended.output;
  }
  if (failed.empty() && library.size() < 9) failed = "too short to say anything";
  fs::remove_all(options.directory);
  std::string json =
      fmt::format(R"({{"schema":1,"minutes":{},"rounds":{})", options.minutes, rounds);
  for (const auto& [name, readings] : {std::pair{"library", &library}, {"program", &program}}) {
    if (!failed.empty()) break;
    const Level level = LevelOf(*readings);
    fmt::print("soak: {}: {:.1f} then {:.1f} MB, {} then {} handles, {} then {} threads\n", name,
               level.second_megabytes, level.last_megabytes, level.second_handles,
               level.last_handles, level.second_threads, level.last_threads);
    json +=
        fmt::format(R"(,"{}":{{"megabytes":[{:.2f},{:.2f}],"handles":[{},{}],"threads":[{},{}]}})",
                    name, level.second_megabytes, level.last_megabytes, level.second_handles,
                    level.last_handles, level.second_threads, level.last_threads);
    if (const std::string wrong = level.Wrong(); !wrong.empty()) failed = name + (": " + wrong);
  }
  fmt::print("soak: {}\n", failed.empty() ? "level" : "FAILED: " + failed);
  if (options.json) fmt::print("{},\"level\":{}}}\n", json, failed.empty());
  return failed.empty() ? 0 : 1;
}

Options Parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool more = i + 1 < count;
    if (word == "--json") {
      options.json = true;
    } else if (word == "--minutes" && more) {
      options.minutes = std::stod(words[++i]);
    } else if (word == "--program" && more) {
      options.program = fs::absolute(words[++i]);
    } else if (word == "--directory" && more) {
      options.directory = words[++i];
    } else if (word == "--help" || word == "-h") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    } else {
      throw std::invalid_argument("unknown flag, or one without its value: " + word);
    }
  }
  return options;
}

}  // namespace
}  // namespace folio::soak

int main(int count, char** words) {
  try {
    return folio::soak::Soak(folio::soak::Parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 2;
  }
}
