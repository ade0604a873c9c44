#include "folio/model/shard_weights.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"

namespace folio {

void RequireShards(const GptConfig& config, const LoraConfig& lora, int64_t count) {
  if (count == 1) return;
  const auto refuse = [&](const std::string& why, const std::string& how) {
    throw UsageError(fmt::format("{} ranks cannot share the layers of this model", count), why,
                     how);
  };
  GptConfig copy = config, plain;
  const std::vector<GptRow> rows = copy.Rows(), defaults = plain.Rows();
  std::vector<std::string> whole;
  bool differs = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((rows[i].roles & GptRow::kNotSharded) == 0) continue;
    whole.push_back(rows[i].key);
    differs = differs || FieldText(rows[i]) != FieldText(defaults[i]);
  }
  if (differs) {
    const std::string last = std::move(whole.back());
    whole.pop_back();
    refuse(fmt::format("{} and {} do not support tensor parallelism", Join(whole, ", "), last),
           "remove --tensor-parallel");
  }
  if (lora.on()) {
    refuse("adapters do not support tensor parallelism", "remove --tensor-parallel or --lora");
  }
  for (const auto& [name, n] : {NamedSize{"n_head", config.n_head},
                                {"n_kv_head", config.head_layout().kv_heads},
                                {"n_inner", config.inner()}}) {
    if (n % count == 0) continue;
    refuse(fmt::format("{} must be divisible by the number of ranks; it is {}", name, n),
           fmt::format("use --tensor-parallel {}", NearestDivisors(n, count)));
  }
  if (config.vocab_size < count) {
    refuse(fmt::format("the vocabulary of {} tokens is too small", config.vocab_size),
           fmt::format("use --tensor-parallel {}", config.vocab_size));
  }
}

PlaceInWhole::PlaceInWhole(const ParamTable& table, const ParamInfo& info, const Shape& whole)
    : width_(info.shape.back()), whole_width_(whole.back()) {
  const Shard& shard = table.shard();
  const bool rows = info.axis == ShardAxis::kRows && whole.rank() == 2;
  if (rows) first_row_ = shard.Begin(whole[0]);
  if (rows || info.axis == ShardAxis::kNone) return;
  runs_.fill({0, shard.Begin(whole_width_)});
  if (info.axis == ShardAxis::kUp && table.config().gated()) {
    const int64_t F = table.config().inner(), begin = shard.Begin(F), width = shard.Size(F);
    runs_ = {{{0, begin}, {width, begin + F - width}, {width, begin + F - width}}};
  }
  if (info.axis != ShardAxis::kQkv) return;
  const HeadLayout heads = table.config().head_layout();
  const auto of_whole = heads.columns(), of_shard = heads.ShardOf(shard).columns();
  for (size_t i = 0; i < runs_.size(); ++i) {
    const int64_t begin = of_whole[i].begin + shard.Begin(of_whole[i].width);
    runs_[i] = {of_shard[i].begin, begin - of_shard[i].begin};
  }
}

namespace {

// Copies every element that the shard has, to the shard or, with `back`, to the whole.
template <class Number>
void CopyShard(const GptWeights& whole, const GptWeights& shard, bool back) {
  FOLIO_CHECK(whole.tensors().size() == shard.tensors().size(), "a shard of another model");
  for (size_t p = 0; p < shard.tensors().size(); ++p) {
    const Tensor &of_shard = shard.tensors()[p], &of_whole = whole.tensors()[p];
    if (!of_shard) continue;
    const ParamInfo& info = shard.table().params()[p];
    const PlaceInWhole place(shard.table(), info, whole.table().params()[p].shape);
    const HostEdit whole_edit(of_whole), shard_edit(of_shard);
    Number* in_whole = whole_edit.elements<Number>().data();
    Number* in_shard = shard_edit.elements<Number>().data();
    constexpr int64_t kGrain = 1 << 14;
    ParallelRange(info.shape.count(), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        (back ? in_whole[place(i)] : in_shard[i]) = back ? in_shard[i] : in_whole[place(i)];
      }
    });
    (back ? whole_edit : shard_edit).Send();
  }
}

void CopyShard(const GptWeights& whole, const GptWeights& shard, bool back) {
  shard.dtype() == Dtype::kF64 ? CopyShard<double>(whole, shard, back)
                               : CopyShard<float>(whole, shard, back);
}

}  // namespace

void TakeShard(const GptWeights& whole, const GptWeights& shard) {
  CopyShard(whole, shard, /*back=*/false);
}

void PutShard(const GptWeights& whole, const GptWeights& shard) {
  CopyShard(whole, shard, /*back=*/true);
}

}  // namespace folio
