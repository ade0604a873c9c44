#include "folio/run/training_run.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/signals.h"
#include "folio/base/simd_targets.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/data/conversations.h"
#include "folio/data/dataset.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/ranks/group.h"
#include "folio/run/prepared_run.h"
#include "folio/run/preview.h"
#include "folio/run/run_directory.h"
#include "folio/run/watchdog.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/streaming.h"
#include "folio/text/tokenizer.h"
#include "folio/train/tensorboard.h"
#include "folio/train/train_state.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Turns as people read them: "user: Who are you?\nassistant: ".
std::string TurnsText(const Tokenizer& tokenizer, const ChatFormat& format,
                      std::span<const int32_t> ids) {
  std::string text;
  StreamingDecoder decoder(tokenizer);
  for (const int32_t id : ids) {
    std::string_view role;
    for (const ChatRole one : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
      if (id == format.RoleToken(one)) role = ChatRoleName(one);
    }
    if (!role.empty()) {
      text += fmt::format("{}: ", role);
    } else if (id == format.end) {
      text += decoder.Flush() + "\n";
    } else {
      text += decoder.Add(id);
    }
  }
  return text;
}

// Does work without which training can continue: warns if it fails.
template <class F>
void TryTo(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

// Writes the files of a run directory that the trainer does not write: samples.jsonl, and
// tensorboard/ with log.tensorboard.
class RunRecorder {
 public:
  // The run has trained `first_step` steps: removes the samples of later ones, which will be
  // repeated. Without a tokenizer there are no samples.
  RunRecorder(const PreparedRun& run, int64_t first_step) : run_(run), inside_(dir()) {
    if (run.tokenizer != nullptr && config().log.sample_every > 0) MakePrompt();
    // A sample of a step comes before the checkpoint of that step.
    CutLines(dir() / kSamplesFile, first_step + 1);
    if (!config().log.tensorboard) return;
    tensorboard_.emplace(dir() / kTensorBoardDir);
    if (first_step > 0) tensorboard_->Restart(first_step, WallSeconds());
  }

  // Records a step, as metrics.jsonl has it.
  void Record(const StepMetrics& m) {
    ToTensorBoard([&](TensorBoardWriter& events) {
      const double now = WallSeconds();
      const auto put = [&](const char* tag, const std::optional<double>& value) {
        if (value) events.Scalar(tag, m.step, *value, now);
      };
      put("loss", m.loss);
      put("lr", m.lr);
      put("grad_norm", m.grad_norm);
      put("tokens_per_second", m.tokens_per_second);
      put("train_eval_loss", m.train_eval_loss);
      put("val_loss", m.val_loss);
      if (m.val_loss) events.Flush();
    });
  }

  // Writes a sample and returns its text, without the prompt. On conversations it is an answer: to
  // log.sample_prompt, or to the first held-out question.
  std::string Sample(int64_t step, const GptWeights& weights) {
    Generator generator(*run_.backend, weights);
    GenerateOptions options{.sampling = {.seed = static_cast<uint64_t>(config().train.seed)},
                            .max_tokens = config().log.sample_tokens,
                            .truncate = true};
    const std::optional<ChatData>& chat = run_.data->info().chat;
    if (chat && chat->end) options.stop_tokens = {*chat->end};
    const GeneratedText written = GenerateText(
        generator, *run_.tokenizer, prompt_ids_, options, static_cast<uint64_t>(step),
        [](auto) { return true; }, chat_ ? &*chat_ : nullptr);
    const Json line = {
        {"event", "sample"}, {"step", step}, {"prompt", prompt_}, {"text", written.text}};
    if (samples_ == nullptr) samples_ = std::make_unique<LineFile>(dir() / kSamplesFile);
    samples_->Write(line.dump() + "\n");
    samples_->Sync();  // the next checkpoint must not be written before it
    ToTensorBoard([&](TensorBoardWriter& events) {
      // A block of code in Markdown, so that line breaks stay.
      const std::string block = "    " + Join(Split(prompt_ + written.text, '\n'), "\n    ");
      events.Text("sample", step, block, WallSeconds());
      events.Flush();
    });
    return written.text;
  }

  // The beginning of samples, for people.
  const std::string& prompt() const { return prompt_; }

  // Throws a kRuntime Error if samples cannot be written.
  void End(const TrainResult& result) {
    if (result.evaluation) {
      Record({.step = result.step,
              .train_eval_loss = result.evaluation->train_loss,
              .val_loss = result.evaluation->val_loss});
    }
    ToTensorBoard([](TensorBoardWriter& events) { events.Flush(); });
    if (samples_ != nullptr) samples_->Finish();
  }

 private:
  const RunConfig& config() const { return run_.config(); }
  const fs::path& dir() const { return run_.options.out; }

  void MakePrompt() {
    const Dataset& data = *run_.data;
    const Tokenizer& tokenizer = *run_.tokenizer;
    const bool chat = data.info().chat.has_value();
    try {
      chat_ = FindChatEncoder(tokenizer);
    } catch (const Error&) {  // a model with a template that folio does not know continues texts
      if (chat) throw;
    }
    prompt_ = config().log.sample_prompt;
    if (chat && chat_) {
      if (prompt_.empty()) {
        prompt_ids_ = FirstQuestion(data.val(), data.val_chats(), config().train.context);
      } else {
        const Conversation asked{.messages = {{ChatRole::kUser, prompt_}}};
        chat_->Encode(tokenizer, asked, /*ask=*/true, "log.sample_prompt", prompt_ids_);
      }
      const ChatFormat* format = chat_->format();
      prompt_ = format != nullptr ? TurnsText(tokenizer, *format, prompt_ids_)
                                  : tokenizer.DecodeText(prompt_ids_);
    }
    if (prompt_ids_.empty()) prompt_ids_ = PromptTokens(tokenizer, prompt_);
  }

  // Warns and stops writing events if they cannot be written: training continues.
  template <class F>
  void ToTensorBoard(const F& write) {
    if (!tensorboard_) return;
    try {
      write(*tensorboard_);
    } catch (const Error& error) {
      LogWarning(
          fmt::format("cannot write events for TensorBoard: {}: {}", error.what(), error.cause()));
      tensorboard_.reset();
    }
  }

  const PreparedRun& run_;
  GuardedDirectory inside_;
  std::string prompt_;
  std::vector<int32_t> prompt_ids_;
  std::optional<ChatEncoder> chat_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::unique_ptr<LineFile> samples_;  // from the first one on
};

// A prepared run as it trains, with its recorder and checks.
class RunInTraining {
 public:
  RunInTraining(PreparedRun& run, const RunHooks& hooks) : run_(run), hooks_(hooks) {}

  TrainResult Train() {
    // The model of the measurement is freed before that of the run is allocated.
    run_.ProbePreview();
    const std::optional<FoundModel>& from = run_.initial ? run_.initial : run_.base;
    Trainer trainer(*run_.backend, config().model, config().train, data(), dir(), Hooks(),
                    tokenizer(), from ? &from->model : nullptr, run_.ranks.group(),
                    run_.base_sha256);
    run_.initial.reset();
    run_.base.reset();
    if (run_.resume && NothingToDo(trainer)) return {.step = trainer.step()};
    if (!first()) return trainer.Run();
    Begin(trainer);
    TrainResult result = trainer.Run();
    watchdog_->Finish(data());
    if (check_) check_->Wait([this] { return StopAsked(); });
    FollowPlan(trainer.max_steps(), /*last=*/true);
    DrawLoss();
    recorder_->End(result);
    return result;
  }

 private:
  const fs::path& dir() const { return run_.options.out; }
  RunConfig& config() const { return run_.config(); }
  const Dataset& data() const { return *run_.data; }
  const Tokenizer* tokenizer() const { return run_.tokenizer.get(); }
  bool first() const { return run_.ranks.first(); }
  bool StopAsked() const {
    return StopRequested() != 0 || (hooks_.stop_requested && hooks_.stop_requested());
  }

  // All ranks have requests of their own process, and take part in measurements of all; only the
  // first reports and records.
  TrainerHooks Hooks() {
    TrainerHooks all;
    if (first()) {
      all = HooksOfFirst();
    } else {
      all.on_step = hooks_.on_step;
      all.on_evaluation = hooks_.on_evaluation;
    }
    all.layer_norms_every = config().log.layer_norms;
    all.sample_every = tokenizer() != nullptr ? config().log.sample_every : 0;
    all.stop_requested = [this] { return StopAsked(); };
    all.abandon_requested = hooks_.abandon_requested;
    all.checkpoint_requested = [] { return TakeCheckpointRequest(); };
    all.on_plan = [this](int64_t steps) { FollowPlan(steps); };
    all.budget_began = run_.began;
    return all;
  }

  TrainerHooks HooksOfFirst() {
    TrainerHooks all;
    all.on_step = [this](const StepMetrics& metrics) { Step(metrics); };
    all.on_evaluation = hooks_.on_evaluation;
    all.on_evaluation_progress = hooks_.on_evaluation_progress;
    all.on_checkpoint = [this](int64_t step, const fs::path& path) {
      watchdog_->LookAtData();
      if (hooks_.on_checkpoint) hooks_.on_checkpoint(step, path);
    };
    all.on_rollback = [this](int64_t from, int64_t to, const std::string& why) {
      Record(to);
      if (hooks_.on_rollback) hooks_.on_rollback(from, to, why);
    };
    all.rank_seconds = config().log.ranks;
    if (tokenizer() == nullptr) return all;
    all.on_sample = [this](int64_t step, const GptWeights& weights) {
      const std::string text = recorder_->Sample(step, weights);
      if (hooks_.on_sample) hooks_.on_sample(step, recorder_->prompt(), text);
    };
    return all;
  }

  void Step(const StepMetrics& metrics) {
    watchdog_->Step();
    recorder_->Record(metrics);
    if (hooks_.on_step) hooks_.on_step(metrics);
    if (!check_) return;
    // Data is checked before the next checkpoint is begun; the last one waits for the check.
    const bool last = metrics.step + 1 >= config().train.max_steps;
    if (last && !check_->done()) {
      run_.ranks.Note("verifying the hashes of all tokens before the last checkpoint");
    }
    if (last) check_->Wait([this] { return StopAsked(); });
    check_->Look();
  }

  // Continues from the checkpoint of the run; returns true if the run has already ended.
  bool NothingToDo(Trainer& trainer) {
    if (first()) RepairLines(dir() / kMetricsFile);
    run_.ranks.WaitForFirst();
    trainer.Resume(run_.checkpoint);
    config().train.max_steps = trainer.max_steps();
    if (!trainer.ended() || trainer.step() < trainer.max_steps()) return false;
    if (first()) DrawLoss();
    return true;
  }

  // Moves the run to its place, and starts recorder and checks.
  void Begin(const Trainer& trainer) {
    const fs::path parts = run_.Parts();
    // Not earlier: settings that the run refuses must not replace its own.
    WriteFileAtomically(parts / kRunConfigFile, run_.settings.layers.ToToml());
    told_steps_ = config().train.max_steps;
    const ParamTable table(config().model, config().train.lora);
    const int64_t saved =
        config().train.saves_adapters() ? table.trained_size() : table.parameters();
    const uint64_t checkpoint =
        sizeof(float) *
        static_cast<uint64_t>(saved + StateElements(OptimizerSettingsOf(config().train), table));
    std::error_code unknown;
    RequireRoom(dir(), fs::space(dir(), unknown), run_.new_run ? run_.new_run->ReplacedBytes() : 0,
                checkpoint, config().train.keep_last + 1);
    CheckFingerprint(parts, data());
    const bool own = data().dir() == (parts / kRunDataDir).string();
    if (run_.new_run) run_.new_run->Begun();
    const fs::path data_dir = own ? dir() / kRunDataDir : fs::path(data().dir());
    watchdog_.emplace(dir(), checkpoint, data(), data_dir);
    if (data().bytes() > run_.options.hashed_at_once && data().hashed()) {
      run_.ranks.Note(fmt::format("verifying the hashes of {} of tokens during training",
                                  HumanBytes(data().bytes())));
      check_.emplace(data_dir.string());
    }
    if (hooks_.on_begin) hooks_.on_begin(trainer.step());
    Record(trainer.step());
    if (run_.finite == nullptr) return;
    run_.finite->Watch({.when = [&trainer] { return fmt::format("step {}", trainer.step()); },
                        .name_of = [&trainer](const std::byte* at) { return trainer.NameOf(at); }});
  }

  void Record(int64_t first_step) { recorder_.emplace(run_, first_step); }

  // The clock has changed the number of steps: writes it to the settings of the run if the change
  // is large, or the `last` one.
  void FollowPlan(int64_t steps, bool last = false) {
    constexpr int64_t kTrifle = 20;  // one of so many
    config().train.max_steps = steps;
    const int64_t change = std::abs(steps - told_steps_);
    if (change <= (last ? 0 : told_steps_ / kTrifle)) return;
    told_steps_ = steps;
    TryTo([&] { WriteFileAtomically(dir() / kRunConfigFile, run_.settings.layers.ToToml()); });
  }

  // Only warns if the figure cannot be written.
  void DrawLoss() const {
    TryTo([&] { DrawLossFigure(dir()); });
  }

  PreparedRun& run_;
  const RunHooks& hooks_;
  int64_t told_steps_ = 0;  // train.max_steps as RUN/config.toml has it
  std::optional<RunRecorder> recorder_;
  std::optional<Watchdog> watchdog_;
  std::optional<DataCheck> check_;
};

// A line for each rank about its machine and work; "" for one rank alone. All ranks must call it.
std::string DescribeRanks(const PreparedRun& run, bool json) {
  Group* const group = run.ranks.group();
  if (group == nullptr) return "";
  const TrainConfig& train = run.config().train;
  const int64_t turns = train.grad_accumulation / (run.ranks.size() / train.tensor_parallel);
  const std::string line =
      json ? Json{{"event", "rank"},
                  {"rank", group->rank()},
                  {"host", group->HostOf(group->rank())},
                  {"threads", Threads()},
                  {"micro_batches", turns},
                  {"simd", SimdTarget()},
                  {"backend_description", run.backend->description()},
                  {"memory_available_bytes", ThisMachinesMemory().available}}
                 .dump()
           : fmt::format("{}: {} of {} micro-batches, {} threads ({}), {} of memory free",
                         group->NameOf(group->rank()), turns, train.grad_accumulation, Threads(),
                         SimdTarget(), HumanBytes(ThisMachinesMemory().available));
  return Join(group->Gather(line), "\n") + "\n";
}

}  // namespace

TrainingRun::TrainingRun(RunSettings& settings, TrainingRunOptions options)
    : run_(std::make_unique<PreparedRun>(PrepareRun(settings, std::move(options)))) {}

TrainingRun::~TrainingRun() = default;

const TrainPreview& TrainingRun::preview() const {
  return *run_->preview;
}

bool TrainingRun::has_tokenizer() const {
  return run_->tokenizer != nullptr;
}

TrainResult TrainingRun::Train(const RunHooks& hooks) {
  return RunInTraining(*run_, hooks).Train();
}

std::string TrainingRun::Plan(bool json) {
  run_->ProbePreview();
  const std::string ranks = DescribeRanks(*run_, json);
  if (json) return run_->preview->Event().dump() + "\n" + ranks;
  return run_->preview->Plan() + ranks + run_->preview->Estimate() + "\n";
}

}  // namespace folio
