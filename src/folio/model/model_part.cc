#include "folio/model/model_part.h"

#include <fmt/format.h>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/model/divisors.h"

namespace folio {

GptConfig PartOf(GptConfig whole, int64_t index, int64_t parts) {
  FOLIO_CHECK(whole.part.whole() && index >= 0 && index < parts, "no such part");
  whole.part = {.index = index, .parts = parts};
  return whole;
}

GptConfig WholeOf(GptConfig part) {
  part.part = {};
  return part;
}

void RequireParts(const GptConfig& whole, int64_t parts) {
  if (parts == 1) return;
  const auto refuse = [&](const std::string& why, const std::string& how) {
    throw UsageError(fmt::format("{} ranks cannot share the layers of this model", parts), why,
                     how);
  };
  if (whole.lora.on()) {
    refuse("adapters are trained by each rank whole", "leave --tensor-parallel or --lora out");
  }
  for (const auto& [name, n] : {NamedSize{"n_head", whole.n_head}, {"n_inner", whole.inner()}}) {
    if (n % parts == 0) continue;
    refuse(fmt::format("each has as much of {}, which is {}", name, n),
           fmt::format("use --tensor-parallel {}", NearestDivisors(n, parts)));
  }
  if (whole.vocab_size < parts) {
    refuse(fmt::format("each has some of the vocabulary, of {} tokens", whole.vocab_size),
           fmt::format("use --tensor-parallel {}", whole.vocab_size));
  }
}

PlaceInWhole::PlaceInWhole(const GptConfig& config, const ParamInfo& info, const Shape& whole)
    : width_(info.shape[info.shape.rank() - 1]),
      group_(width_),
      whole_width_(whole[whole.rank() - 1]),
      whole_group_(whole_width_) {
  const bool matrix = whole.rank() == 2;
  if (matrix && info.shape[0] != whole[0]) first_row_ = config.part.Begin(whole[0]);
  if (width_ == whole_width_) return;
  if (info.module == "attn.c_attn") {
    group_ /= 3;
    whole_group_ /= 3;
  }
  first_column_ = config.part.Begin(whole_group_);
}

namespace {

// Calls copy(element of the whole, element of the part) for every element that the part has.
template <class Number, class Copy>
void ForEachElement(const GptWeights& whole, const GptWeights& part, const Copy& copy) {
  FOLIO_CHECK(whole.tensors().size() == part.tensors().size(), "a part of another model");
  for (size_t p = 0; p < part.tensors().size(); ++p) {
    const Tensor &of_part = part.tensors()[p], &of_whole = whole.tensors()[p];
    if (!of_part) continue;
    const ParamInfo& info = part.table().params()[p];
    const PlaceInWhole place(part.config(), info, whole.table().params()[p].shape);
    Number* in_whole = of_whole.data<Number>();
    Number* in_part = of_part.data<Number>();
    constexpr int64_t kGrain = 1 << 14;
    ParallelRange(info.shape.count(), kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) copy(in_whole[place(i)], in_part[i]);
    });
  }
}

}  // namespace

void TakePart(const GptWeights& whole, const GptWeights& part) {
  const auto take = [](const auto& in_whole, auto& in_part) { in_part = in_whole; };
  if (part.dtype() == Dtype::kF64) {
    ForEachElement<double>(whole, part, take);
  } else {
    ForEachElement<float>(whole, part, take);
  }
}

void PutPart(const GptWeights& whole, const GptWeights& part) {
  const auto put = [](auto& in_whole, const auto& in_part) { in_whole = in_part; };
  if (part.dtype() == Dtype::kF64) {
    ForEachElement<double>(whole, part, put);
  } else {
    ForEachElement<float>(whole, part, put);
  }
}

}  // namespace folio
