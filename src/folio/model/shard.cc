#include "folio/model/shard.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/model/divisors.h"
#include "folio/model/params.h"

namespace folio {

void RequireShards(const GptConfig& config, const LoraConfig& lora, int64_t count) {
  if (count == 1) return;
  const auto refuse = [&](const std::string& why, const std::string& how) {
    throw UsageError(fmt::format("{} ranks cannot share the layers of this model", count), why,
                     how);
  };
  if (lora.on()) {
    refuse("adapters are trained by each rank whole", "leave --tensor-parallel or --lora out");
  }
  for (const auto& [name, n] : {NamedSize{"n_head", config.n_head}, {"n_inner", config.inner()}}) {
    if (n % count == 0) continue;
    refuse(fmt::format("each has as much of {}, which is {}", name, n),
           fmt::format("use --tensor-parallel {}", NearestDivisors(n, count)));
  }
  if (config.vocab_size < count) {
    refuse(fmt::format("each has some of the vocabulary, of {} tokens", config.vocab_size),
           fmt::format("use --tensor-parallel {}", config.vocab_size));
  }
}

PlaceInWhole::PlaceInWhole(const Shard& shard, const ParamInfo& info, const Shape& whole)
    : width_(info.shape[info.shape.rank() - 1]),
      group_(width_),
      whole_width_(whole[whole.rank() - 1]),
      whole_group_(whole_width_) {
  const bool matrix = whole.rank() == 2;
  if (matrix && info.shape[0] != whole[0]) first_row_ = shard.Begin(whole[0]);
  if (width_ == whole_width_) return;
  if (info.module == "attn.c_attn") {
    group_ /= 3;
    whole_group_ /= 3;
  }
  first_column_ = shard.Begin(whole_group_);
}

namespace {

// Calls copy(element of the whole, element of the shard) for every element that the shard has.
template <class Number, class Copy>
void ForEachElement(const GptWeights& whole, const GptWeights& shard, const Copy& copy) {
  FOLIO_CHECK(whole.tensors().size() == shard.tensors().size(), "a shard of another model");
  for (size_t p = 0; p < shard.tensors().size(); ++p) {
    const Tensor &of_shard = shard.tensors()[p], &of_whole = whole.tensors()[p];
    if (!of_shard) continue;
    const ParamInfo& info = shard.table().params()[p];
    const PlaceInWhole place(shard.table().shard(), info, whole.table().params()[p].shape);
    Number* in_whole = of_whole.data<Number>();
    Number* in_shard = of_shard.data<Number>();
    constexpr int64_t kGrain = 1 << 14;
    ParallelRange(info.shape.count(), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) copy(in_whole[place(i)], in_shard[i]);
    });
  }
}

}  // namespace

void TakeShard(const GptWeights& whole, const GptWeights& shard) {
  const auto take = [](const auto& in_whole, auto& in_shard) { in_shard = in_whole; };
  if (shard.dtype() == Dtype::kF64) {
    ForEachElement<double>(whole, shard, take);
  } else {
    ForEachElement<float>(whole, shard, take);
  }
}

void PutShard(const GptWeights& whole, const GptWeights& shard) {
  const auto put = [](auto& in_whole, const auto& in_shard) { in_whole = in_shard; };
  if (shard.dtype() == Dtype::kF64) {
    ForEachElement<double>(whole, shard, put);
  } else {
    ForEachElement<float>(whole, shard, put);
  }
}

}  // namespace folio
