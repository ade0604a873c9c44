#include "folio/model/tensor_parallel_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "folio/base/check.h"
#include "folio/base/thread_pool.h"
#include "folio/tensor/dtype.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

// An array in as many pieces as there are ranks.
struct TensorPieces {
  const Tensor& x;
  int ranks;

  int64_t Begin(int rank) const { return x.count() * rank / ranks; }
  int64_t Size(int rank) const { return Begin(rank + 1) - Begin(rank); }
  std::span<std::byte> Of(int rank) const {
    const Tensor piece = x.Reshape({x.count()}).Slice(Begin(rank), Begin(rank + 1));
    return {piece.host_bytes(), piece.bytes()};
  }
};

template <class Number>
auto Widened(Number x) {
  if constexpr (std::is_same_v<Number, BF16>) {
    return ToFloat(x);
  } else {
    return x;
  }
}

// mine = received[0] + ... + mine, in its place among them, + ...
template <class Number>
void AddPieces(Number* mine, const std::byte* received, int64_t n, int rank, int ranks) {
  const auto* others = reinterpret_cast<const Number*>(received);
  constexpr int64_t kGrain = 1 << 13;
  ParallelRange(n, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      auto sum = Widened(rank == 0 ? mine[i] : others[i]);
      for (int r = 1; r < ranks; ++r) sum += Widened(r == rank ? mine[i] : others[r * n + i]);
      if constexpr (std::is_same_v<Number, BF16>) {
        mine[i] = ToBF16(sum);
      } else {
        mine[i] = sum;
      }
    }
  });
}

// `of_shards` has the log-sum-exps of all shards, one shard's behind the other's.
template <class Number>
void JoinRows(const Shard& shard, const Tensor& targets, const Number* of_shards, Number* lse,
              Number* losses) {
  const int64_t rows = targets.count();
  for (int64_t n = 0; n < rows; ++n) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = 0; s < shard.count; ++s) {
      largest = std::max<double>(largest, of_shards[s * rows + n]);
    }
    for (int64_t s = 0; s < shard.count; ++s) sum += std::exp(of_shards[s * rows + n] - largest);
    const auto joined = static_cast<Number>(largest + std::log(sum));
    if (targets.host<int32_t>()[n] >= 0) losses[n] += joined - lse[n];
    lse[n] = joined;
  }
}

}  // namespace

void TensorParallelGroup::Sum(const Tensor& of_pass) {
  const int rank = communicator_.rank(), ranks = communicator_.size();
  if (ranks == 1) return;
  const HostEdit edit(of_pass);
  const Tensor& x = edit.tensor();
  const TensorPieces pieces{x, ranks};
  const std::span<std::byte> mine = pieces.Of(rank);
  const size_t room = mine.size() * static_cast<size_t>(ranks);
  if (received_.size() < room) received_.resize(room);
  // Each piece of everybody's goes to its rank, and then that rank's own to everybody.
  Exchange scatter([&](int to) { return pieces.Of(to); },
                   [&](int from) {
                     return std::span(received_.data() + static_cast<size_t>(from) * mine.size(),
                                      mine.size());
                   });
  communicator_.Do(scatter);
  const int64_t n = pieces.Size(rank);
  if (x.dtype() == Dtype::kF64) {
    AddPieces(reinterpret_cast<double*>(mine.data()), received_.data(), n, rank, ranks);
  } else if (x.dtype() == Dtype::kBF16) {
    AddPieces(reinterpret_cast<BF16*>(mine.data()), received_.data(), n, rank, ranks);
  } else {
    FOLIO_CHECK(x.dtype() == Dtype::kF32, "no numbers to add up");
    AddPieces(reinterpret_cast<float*>(mine.data()), received_.data(), n, rank, ranks);
  }
  Exchange spread([&](int) { return mine; }, [&](int from) { return pieces.Of(from); });
  communicator_.Do(spread);
  edit.Send();
}

void TensorParallelGroup::JoinLosses(const Shard& shard, const Tensor& targets,
                                     const Tensor& lse_parts, const Tensor& lse,
                                     const Tensor& losses) {
  const int64_t rows = targets.count();
  // Each shard adds its own log-sum-exps to the others' zeros.
  const Tensor all = lse_parts.Reshape({lse_parts.count()}).Slice(0, shard.count * rows);
  const HostEdit parts(all, HostEdit::kDiscard), own(lse), own_losses(losses);
  const Tensor &of_shards = parts.tensor(), &of_rows = own.tensor();
  std::memset(of_shards.host_bytes(), 0, of_shards.bytes());
  CopyElements(of_rows, of_shards.Slice(shard.index * rows, (shard.index + 1) * rows));
  Sum(of_shards);
  const HostCopy ids(targets);
  const auto join = [&]<class Number>(Number) {
    JoinRows(shard, ids.tensor(), of_shards.host<Number>(), of_rows.host<Number>(),
             own_losses.elements<Number>().data());
  };
  lse.dtype() == Dtype::kF64 ? join(double()) : join(float());
  own.Send();
  own_losses.Send();
}

}  // namespace folio
