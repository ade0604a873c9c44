#include "folio/run/resumed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/train/schedule.h"

namespace folio {
namespace {

// Keys, or what they begin with.
constexpr std::array kFixedKeys = {"model.",   "lora.",           "data.val_", "data.field",
                                   "data.raw", "data.add_tokens", "train.rng", "train.init"};
constexpr std::array kDropoutKeys = {"model.embd_pdrop", "model.attn_pdrop", "model.resid_pdrop",
                                     "lora.dropout"};
constexpr std::array kFreeKeys = {"log.",
                                  "data.tokenizer",
                                  "train.eval_",
                                  "train.first_eval_batches",
                                  "train.keep_",
                                  "train.checkpoint_",
                                  "train.patience",
                                  "train.max_rollbacks",
                                  "train.max_time",
                                  "train.max_tokens",
                                  "train.threads",
                                  "train.max_skipped_steps",
                                  "train.recompute",
                                  "train.check_numerics",
                                  "train.max_steps"};
constexpr std::array kScheduleKeys = {
    "train.max_steps", "train.budget",       "train.learning_rate", "train.min_lr",
    "train.schedule",  "train.warmup_steps", "train.decay_steps",   "train.stable_fraction"};

template <class Keys>
bool AmongThem(const Keys& keys, std::string_view key) {
  return std::ranges::any_of(keys, [&](std::string_view known) { return key.starts_with(known); });
}

}  // namespace

Resumption ResumptionOf(std::string_view key) {
  if (AmongThem(kDropoutKeys, key)) return Resumption::kFromHere;
  if (AmongThem(kFixedKeys, key)) return Resumption::kFixed;
  return AmongThem(kFreeKeys, key) ? Resumption::kFree : Resumption::kFromHere;
}

std::vector<std::string> ChangedSettings(RunConfig before, RunConfig now, int64_t step) {
  const bool another_rate = DescribeSchedule(before.train) != DescribeSchedule(now.train);
  const std::vector<Field> old_fields = before.Fields(), fields = now.Fields();
  std::vector<std::string> lines, of_schedule;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& key = fields[i].key;
    const std::string was = FieldText(old_fields[i]), is = FieldText(fields[i]);
    if (was == is) continue;
    const std::string what = fmt::format("{} was {}, is {}", key, was, is);
    if (another_rate && AmongThem(kScheduleKeys, key)) {
      of_schedule.push_back(what);
      continue;
    }
    switch (ResumptionOf(key)) {
      case Resumption::kFixed:
        throw UsageError(fmt::format("{} cannot change in a run that goes on", key), what,
                         fmt::format("leave {} as it was, or begin another run", key));
      case Resumption::kFree:
        lines.push_back(what + ": the numbers of its steps stay the same");
        break;
      case Resumption::kFromHere:
        lines.push_back(fmt::format("{} from step {} on ({})", what, step, fields[i].help));
    }
  }
  if (another_rate) {
    const auto rate = [&](const RunConfig& config) {
      return fmt::format("{:.3g}", LearningRate(config.train, step));
    };
    const std::string was = rate(before), is = rate(now);
    lines.push_back(fmt::format(
        "{}: the learning rate of step {} is {}{}, {}", Join(of_schedule, "; "), WithCommas(step),
        is, is == was ? " as before" : ", not " + was, DescribeDecay(now.train)));
  }
  return lines;
}

}  // namespace folio
