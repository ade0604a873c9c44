// Callers in C get the same where a model lies in memory that the host cannot touch.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "folio/api/test_fenced_models.h"
#include "folio/c/handles.h"
#include "folio/c/test_api.h"
#include "folio/model_files/checkpoint.h"

namespace folio {
namespace {

std::vector<std::string> TensorNames(const Handle<folio_buffer>& json) {
  return nlohmann::json::parse(TextIn(json)).at("tensors");
}

std::string Bytes(const folio_tensor& tensor) {
  return {static_cast<const char*>(tensor.data), tensor.bytes};
}

class FencedCApi : public CApi, public testing::WithParamInterface<FencedOrder> {};

TEST_P(FencedCApi, ModelsWriteAndShowTheSame) {
  const std::unique_ptr<GptWeights> source = LoadModel(At("run") / "best");
  const Ids ids = Prompt("line 7");
  const auto options = Options("generate", {{"max_tokens", "20"}, {"seed", "3"}});
  const auto shown = [&](std::unique_ptr<Backend> backend) {
    const Handle<folio_model> model(
        NewModel(ModelOn(std::move(backend), *source, model_->tokenizer.impl)));
    std::vector<std::string> all;
    const auto keep = [&](const auto& call) {
      const auto buffer = NewBuffer();
      Do([&](folio_error** e) { return call(buffer.get(), e); });
      all.emplace_back(static_cast<const char*>(folio_buffer_data(buffer.get())),
                       folio_buffer_size(buffer.get()));
    };
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_generate(model.get(), ids.data(), ids.size(), options.get(), nullptr, nullptr,
                            nullptr, to, nullptr, e);
    });
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_logits(model.get(), ids.data(), ids.size(), 0, nullptr, to, e);
    });
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_score(model.get(), ids.data(), ids.size(), 1, nullptr, to, e);
    });
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_embed(model.get(), ids.data(), ids.size(), "all", nullptr, to, e);
    });
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_attention(model.get(), ids.data(), ids.size(), 0, 1, to, e);
    });
    keep([&](folio_buffer* to, folio_error** e) {
      return folio_trace(model.get(), ids.data(), ids.size(), "up", 0, to, e);
    });
    const auto info = NewBuffer();
    Do([&](folio_error** e) { return folio_model_info(model.get(), info.get(), e); });
    std::vector<folio_tensor> tensors;
    for (const std::string& name : TensorNames(info)) {
      auto tensor = Sized<folio_tensor>();
      Do([&](folio_error** e) {
        return folio_model_tensor(model.get(), name.c_str(), &tensor, e);
      });
      all.push_back(name + tensor.dtype + Bytes(tensor));
      tensors.push_back(tensor);
      auto again = Sized<folio_tensor>();
      Do([&](folio_error** e) { return folio_model_tensor(model.get(), name.c_str(), &again, e); });
      EXPECT_EQ(again.data, tensor.data) << name;
    }
    for (const folio_tensor& tensor : tensors) all.push_back(Bytes(tensor));  // still there
    return all;
  };
  const std::vector<std::string> expected = shown(MakeCpuBackend());
  EXPECT_GT(expected.size(), 30u);
  EXPECT_EQ(shown(MakeFencedBackend(GetParam())), expected);
}

INSTANTIATE_TEST_SUITE_P(Orders, FencedCApi, FencedOrders(), FencedOrderName);

class FencedTrainer : public CApi {
 protected:
  // A trainer that computes on a backend that settings do not list.
  static Handle<folio_trainer> NewTrainer(const std::string& backend) {
    const auto options = Options("train", {{"preset", "debug"},
                                           {"model.vocab_size", "32"},
                                           {"train.batch_size", "2"},
                                           {"train.grad_accumulation", "2"},
                                           {"train.context", "8"},
                                           {"train.dtype", "fp32"}});
    auto trainer = std::make_unique<folio_trainer>();
    std::vector<Field> fields = trainer->settings.config.Fields();
    std::ranges::find(fields, "train.backend", &Field::key)->choices.push_back(backend);
    trainer->settings.layers = Settings(fields);
    Apply(*options, trainer->settings);
    trainer->settings.Set("train.backend", backend);
    trainer->impl = std::make_unique<BatchTrainer>(trainer->settings);
    return Handle<folio_trainer>(trainer.release());
  }
  static void Step(const Handle<folio_trainer>& trainer, std::vector<double>& numbers) {
    Ids ids(32), targets(32);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(i * i % 32);
      targets[i] = static_cast<int32_t>((i + 1) * (i + 1) % 32);
    }
    auto step = Sized<folio_step>();
    double loss = 0;
    Do([&](folio_error** e) {
      return folio_trainer_step(trainer.get(), ids.data(), targets.data(), ids.size(), nullptr,
                                &step, e);
    });
    Do([&](folio_error** e) {
      return folio_trainer_evaluate(trainer.get(), ids.data(), targets.data(), ids.size(), nullptr,
                                    &loss, e);
    });
    numbers.insert(numbers.end(), {step.loss, step.gradient_norm, loss});
  }
  static folio_tensor TensorOf(const Handle<folio_trainer>& trainer, const std::string& name,
                               int32_t gradient) {
    auto tensor = Sized<folio_tensor>();
    Do([&](folio_error** e) {
      return folio_trainer_tensor(trainer.get(), name.c_str(), gradient, &tensor, e);
    });
    return tensor;
  }
};

TEST_F(FencedTrainer, LearnsShowsAndSavesTheSame) {
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::vector<std::string>> tensors;
  for (const std::string backend : {"cpu", "fenced"}) {
    const Handle<folio_trainer> trainer = NewTrainer(backend);
    const auto json = NewBuffer();
    Do([&](folio_error** e) { return folio_trainer_info(trainer.get(), json.get(), e); });
    std::map<std::string, const void*> places;
    for (int step = 0; step < 3; ++step) {
      Step(trainer, numbers[backend]);
      for (const std::string& name : TensorNames(json)) {
        for (const int32_t gradient : {0, 1}) {
          const folio_tensor tensor = TensorOf(trainer, name, gradient);
          tensors[backend].push_back(Bytes(tensor));
          const auto [place, first] = places.try_emplace(name + (gradient ? "'" : ""), tensor.data);
          EXPECT_EQ(place->second, tensor.data) << name;
        }
      }
    }
    const std::string saved = At(backend).string();
    Do([&](folio_error** e) {
      return folio_trainer_save(trainer.get(), saved.c_str(), nullptr, e);
    });
    const Handle<folio_trainer> resumed = NewTrainer(backend);
    Do([&](folio_error** e) { return folio_trainer_resume(resumed.get(), saved.c_str(), e); });
    Step(resumed, numbers[backend]);
    folio_model* copy = nullptr;
    Do([&](folio_error** e) { return folio_trainer_model(resumed.get(), nullptr, &copy, e); });
    const Handle<folio_model> model(copy);
    const Ids ids = {1, 4, 9};
    const auto logits = NewBuffer();
    Do([&](folio_error** e) {
      return folio_logits(model.get(), ids.data(), ids.size(), 0, nullptr, logits.get(), e);
    });
    for (const float x : Numbers<float>(logits)) numbers[backend].push_back(x);
  }
  EXPECT_EQ(numbers["fenced"], numbers["cpu"]);
  EXPECT_TRUE(tensors["fenced"] == tensors["cpu"]);
  EXPECT_GT(numbers["cpu"].front(), 1);
  EXPECT_TRUE(FilesBelow(At("fenced")) == FilesBelow(At("cpu")));
}

}  // namespace
}  // namespace folio
