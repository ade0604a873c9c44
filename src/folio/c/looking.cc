#include <fmt/format.h>

#include <functional>
#include <span>

#include "folio/c/handles.h"
#include "folio/infer/token_probabilities.h"
#include "folio/inspect/trace.h"

using folio::Guarded;
using folio::RequireArgument;
using folio::Tensor;

namespace {

// Has the model read all of a text, and what `request` asks for shown.
void Read(const folio_model* model, const int32_t* ids, size_t count, folio::TextRequest request,
          const folio_cancel* cancel) {
  const std::span<const int32_t> all = folio::IdsArgument(ids, count);
  request.prompt.assign(all.begin(), all.end());
  request.options.max_tokens = 0;
  const folio::FinishReason reason = model->of->Run(std::move(request), cancel);
  if (reason == folio::FinishReason::kCancelled) throw folio::CallCancelled{};
}

// Calls f(place of the token, row) for each row that is shown.
template <class F>
std::function<void(int64_t, const Tensor&)> EachRow(F f) {
  return [f](int64_t begin, const Tensor& rows) {
    for (int64_t row = 0; row < rows.dim(0); ++row) {
      f(static_cast<size_t>(begin + row), folio::Row(rows, row));
    }
  };
}

void RequireFirst(size_t first, size_t least, size_t count) {
  if (first >= least && first < count) return;
  throw folio::UsageError(
      fmt::format("first: {}", first),
      fmt::format("expected {} to {}, of {} tokens", least, count > 0 ? count - 1 : 0, count));
}

}  // namespace

folio_status folio_logits(const folio_model* model, const int32_t* ids, size_t count, size_t first,
                          const folio_cancel* cancel, folio_buffer* logits, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(logits, "logits");
    RequireFirst(first, 0, count);
    std::vector<float> all;
    folio::TextRequest request;
    request.logits_from = static_cast<int64_t>(first);
    request.on_logits = EachRow(
        [&](size_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
    Read(model, ids, count, std::move(request), cancel);
    logits->Set(all);
  });
}

folio_status folio_score(const folio_model* model, const int32_t* ids, size_t count, size_t first,
                         const folio_cancel* cancel, folio_buffer* log_probabilities,
                         folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(log_probabilities, "log_probabilities");
    RequireFirst(first, 1, count);
    std::vector<double> scores;
    folio::TextRequest request;
    request.logits_from = static_cast<int64_t>(first) - 1;
    request.on_logits = EachRow([&](size_t place, std::span<const float> row) {
      const size_t next = place + 1;  // the token that is predicted
      if (next >= count) return;
      folio::RequireFiniteLogits(row);
      scores.push_back(static_cast<double>(row[static_cast<size_t>(ids[next])]) -
                       folio::LogSum(row));
    });
    Read(model, ids, count, std::move(request), cancel);
    log_probabilities->Set(scores);
  });
}

folio_status folio_embed(const folio_model* model, const int32_t* ids, size_t count,
                         const char* pooling, const folio_cancel* cancel, folio_buffer* embedding,
                         folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(pooling, "pooling");
    RequireArgument(embedding, "embedding");
    const std::string_view named = pooling;
    if (named != "mean" && named != "last" && named != "all") {
      throw folio::UsageError(fmt::format("pooling: '{}'", named), "expected mean, last or all");
    }
    std::vector<float> rows;
    std::vector<double> sums(static_cast<size_t>(model->of->config().n_embd));
    folio::TextRequest request;
    request.on_norm = EachRow([&](size_t, std::span<const float> row) {
      if (named != "all") rows.clear();
      rows.insert(rows.end(), row.begin(), row.end());
      for (size_t i = 0; i < row.size(); ++i) sums[i] += static_cast<double>(row[i]);
    });
    Read(model, ids, count, std::move(request), cancel);
    if (named == "mean") {
      for (size_t i = 0; i < sums.size(); ++i) {
        rows[i] = static_cast<float>(sums[i] / static_cast<double>(count));
      }
    }
    embedding->Set(rows);
  });
}

folio_status folio_attention(const folio_model* model, const int32_t* ids, size_t count,
                             int64_t layer, int64_t head, folio_buffer* weights,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(weights, "weights");
    folio::SharedModel& of = *model->of;
    const folio::Computing alone(of);
    const folio::Trace trace(*of.opened.backend, *of.opened.weights, folio::IdsArgument(ids, count),
                             {folio::TracePoint::kQkv});
    std::vector<float> all(count * count);
    trace.HeadWeights(layer, head, all);
    weights->Set(all);
  });
}
