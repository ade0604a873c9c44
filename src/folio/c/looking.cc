#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "folio/c/handles.h"
#include "folio/model/context.h"

using folio::Guarded;
using folio::RequireArguments;
using folio::TextIdsArgument;
using folio::Watcher;

folio_status folio_logits(const folio_model* model, const int32_t* ids, size_t count, size_t first,
                          const folio_watch* watch, folio_buffer* logits, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {logits, "logits"}});
    Watcher watcher(watch);
    logits->Set(
        model->impl->Logits(TextIdsArgument(ids, count), first, watcher.stop(), watcher.on_read()));
  });
}

folio_status folio_score(const folio_model* model, const int32_t* ids, size_t count, size_t first,
                         const folio_watch* watch, folio_buffer* log_probabilities,
                         folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {log_probabilities, "log_probabilities"}});
    Watcher watcher(watch);
    log_probabilities->Set(
        model->impl->Score(TextIdsArgument(ids, count), first, watcher.stop(), watcher.on_read()));
  });
}

folio_status folio_embed(const folio_model* model, const int32_t* ids, size_t count,
                         const char* pooling, const folio_watch* watch, folio_buffer* embedding,
                         folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {pooling, "pooling"}, {embedding, "embedding"}});
    Watcher watcher(watch);
    embedding->Set(model->impl->Embed(TextIdsArgument(ids, count), folio::PoolingNamed(pooling),
                                      watcher.stop(), watcher.on_read()));
  });
}

folio_status folio_attention(const folio_model* model, const int32_t* ids, size_t count,
                             int64_t layer, int64_t head, folio_buffer* weights,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {weights, "weights"}});
    weights->Set(model->impl->Attention(TextIdsArgument(ids, count), layer, head));
  });
}

folio_status folio_trace(const folio_model* model, const int32_t* ids, size_t count,
                         const char* point, int64_t layer, folio_buffer* rows,
                         folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {point, "point"}, {rows, "rows"}});
    const auto* const found = std::ranges::find(folio::kTracePoints, std::string_view(point),
                                                &folio::TracePointInfo::name);
    if (found == folio::kTracePoints.end()) {
      std::vector<std::string_view> names;
      for (const folio::TracePointInfo& info : folio::kTracePoints) names.push_back(info.name);
      throw folio::UsageError(fmt::format("there is no point '{}'", point),
                              fmt::format("expected one of {}", fmt::join(names, ", ")));
    }
    rows->Set(model->impl->Inside(
        TextIdsArgument(ids, count),
        static_cast<folio::TracePoint>(found - folio::kTracePoints.begin()), layer));
  });
}
