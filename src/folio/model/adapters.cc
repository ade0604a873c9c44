#include "folio/model/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/model/block.h"
#include "folio/model/transformer.h"

namespace folio {

std::vector<std::string_view> AdapterTargets() {
  std::vector<std::string_view> all;
  ForEachLinear([&](const Linear& linear) {
    all.push_back(linear.name);
    std::ranges::copy_if(linear.parts, std::back_inserter(all), [](auto p) { return !p.empty(); });
  });
  return all;
}

void ValidateTargets(const LoraConfig& lora, const std::string& where) {
  if (!lora.on()) return;
  const std::vector<std::string_view> all = AdapterTargets();
  AnyTarget(lora.targets, [&](std::string_view target) {
    if (std::ranges::any_of(all, [&](auto layer) { return TargetNames(target, layer); }))
      return false;
    throw UsageError(fmt::format("{}: lora.targets: there is no layer '{}'", where, target), {},
                     fmt::format("the layers of a block are {}", fmt::join(kLinearLayers, ", ")));
  });
}

namespace {

template <class T>
void AddProduct(const Tensor& weight, int64_t column, const Tensor& a, const Tensor& b,
                double scale) {
  const int64_t I = weight.dim(0), width = weight.dim(1), O = b.dim(0), R = a.dim(0);
  const T *pa = a.host<T>(), *pb = b.host<T>();
  T* w = weight.host<T>() + column;
  std::vector<double> turned(static_cast<size_t>(R * O));  // b, by rank
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t o = 0; o < O; ++o) turned[r * O + o] = static_cast<double>(pb[o * R + r]);
  }
  ParallelRange(I, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<double> sums(static_cast<size_t>(O));
    for (int64_t i = begin; i < end; ++i) {
      std::ranges::fill(sums, 0.0);
      for (int64_t r = 0; r < R; ++r) {
        const auto factor = static_cast<double>(pa[r * I + i]);
        const double* row = turned.data() + r * O;
        for (int64_t o = 0; o < O; ++o) sums[o] += factor * row[o];
      }
      for (int64_t o = 0; o < O; ++o) {
        w[i * width + o] = static_cast<T>(static_cast<double>(w[i * width + o]) + scale * sums[o]);
      }
    }
  });
}

}  // namespace

void AddAdapter(const Tensor& weight, int64_t column, const Tensor& a, const Tensor& b,
                double scale) {
  const auto add = weight.dtype() == Dtype::kF64 ? AddProduct<double> : AddProduct<float>;
  const HostEdit edit(weight);
  add(edit.tensor(), column, HostCopy(a).tensor(), HostCopy(b).tensor(), scale);
  edit.Send();
}

std::unique_ptr<GptWeights> MergeAdapter(const GptWeights& weights) {
  const LoraConfig& lora = weights.table().lora();
  MemoryPlan plan;
  std::map<const std::byte*, MemoryPlan::Id> changed;  // by where they lie in `weights`
  const auto for_each_adapted = [&](const auto& visit) {
    for (const BlockParams& block : weights.params().h) {
      ForEachLinear(
          [&](const Linear& linear, const LinearParams& from) {
            const AdaptedColumns adapted =
                AdaptedColumnsOf(weights.config(), lora, linear, from.weight.dim(1));
            if (adapted.count > 0) visit(from, adapted);
          },
          block);
    }
  };
  for_each_adapted([&](const LinearParams& from, const AdaptedColumns&) {
    changed[from.weight.address()] = plan.Add("merged", from.weight.dtype(), from.weight.shape());
  });
  plan.Place();
  const auto arena = std::make_shared<const Arena>(plan, weights.tensors().front().memory());
  for_each_adapted([&](const LinearParams& from, const AdaptedColumns& adapted) {
    const Tensor to = arena->Get(plan, changed.at(from.weight.address()));
    CopyElements(from.weight, to);
    int64_t row = 0;
    for (int64_t i = 0; i < adapted.count; ++i) {
      const ColumnRange& range = adapted.ranges[static_cast<size_t>(i)];
      AddAdapter(to, range.begin, from.lora_a.Slice(i * lora.rank, (i + 1) * lora.rank),
                 from.lora_b.Slice(row, row + range.width), lora.scale());
      row += range.width;
    }
  });
  const auto tensors = TensorsByName(weights);
  const ParamTable table(weights.config());
  std::vector<Tensor> merged;
  for (const ParamInfo& info : table.params()) {
    const Tensor& here = *tensors.at(info.name);
    const auto found = changed.find(here.address());
    merged.push_back(found == changed.end() ? here : arena->Get(plan, found->second));
  }
  return std::make_unique<GptWeights>(table, std::move(merged), arena);
}

uint64_t MergedBytes(const GptConfig& model, const LoraConfig& lora) {
  if (!lora.on()) return 0;
  const ParamTable table(model);
  int64_t numbers = 0;
  ForEachLinear([&](const Linear& linear) {
    for (const ParamInfo& info : table.params()) {
      if (info.kind != ParamKind::kLinear || info.module != linear.name) continue;
      if (AdaptedColumnsOf(model, lora, linear, info.shape[1]).count > 0) {
        numbers += info.shape.count();
      }
    }
  });
  return sizeof(float) * static_cast<uint64_t>(numbers);
}

}  // namespace folio
