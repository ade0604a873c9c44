#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/model/test_models.h"
#include "folio/train/test_training.h"
#include "tests/kit/thread_ranks.h"

namespace folio {

// Whole runs of a tiny model on ranks that are threads.
class TrainingOnRanks : public Training {
 protected:
  TrainingOnRanks() {
    config_.grad_accumulation = 12;
    config_.max_steps = 9;
    config_.eval_every = 3;
    config_.eval_batches = 5;
  }

  // Trains on data * tensor ranks until `stop` steps are done, as the last rank asks.
  void RunOn(int data, int tensor, const std::string& run, int64_t stop = 100,
             bool resume = false) {
    config_.tensor_parallel = tensor;
    RunOnThreads(data * tensor, [&](Group& group) {
      const auto backend = make_backend_();
      int64_t done = 0;
      TrainerHooks hooks;
      hooks.on_step = [&](const StepMetrics& m) { done = m.step + 1; };
      hooks.stop_requested = [&] { return group.rank() == group.size() - 1 && done == stop; };
      hooks.layer_norms_every = 2;
      hooks.sample_every = 4;
      if (group.first()) {
        hooks.on_sample = [&](int64_t, const GptWeights& weights) {
          EXPECT_EQ(&weights.flat().memory(), &backend->memory());
          for (const Tensor& x : weights.tensors()) {
            const std::vector<float> numbers = Copied<float>(x);
            samples_[run].insert(samples_[run].end(), numbers.begin(), numbers.end());
          }
        };
      }
      Trainer trainer = MakeOn(*backend, run, hooks, &group, nullptr, from_);
      if (resume) trainer.Resume();
      EXPECT_EQ(trainer.Run().step, std::min(stop, config_.max_steps));
    });
  }
  void RunOn(int ranks, const std::string& run, int64_t stop = 100, bool resume = false) {
    RunOn(ranks, 1, run, stop, resume);
  }
  // metrics.jsonl but for times.
  std::vector<double> Numbers(const std::string& run) const {
    std::vector<double> all;
    for (const StepMetrics& m : ReadRunLog(At(run))) {
      all.insert(all.end(), {static_cast<double>(m.step), m.loss.value_or(-1),
                             m.grad_norm.value_or(-1), m.val_loss.value_or(-1)});
      if (!m.layer_norms) continue;
      for (const auto* norms :
           {&m.layer_norms->grad, &m.layer_norms->update, &m.layer_norms->weight}) {
        all.insert(all.end(), norms->begin(), norms->end());
      }
    }
    return all;
  }
  void ExpectSameRun(const std::string& a, const std::string& b) const {
    ExpectSameFiles(a + "/last", b + "/last");
    ExpectSameFiles(a + "/best", b + "/best");
    EXPECT_EQ(Numbers(a), Numbers(b)) << b;
  }

  std::map<std::string, std::vector<float>> samples_;
  const StoredModel* from_ = nullptr;
  std::function<std::unique_ptr<Backend>()> make_backend_ = MakeCpuBackend;  // of a rank
};

}  // namespace folio
