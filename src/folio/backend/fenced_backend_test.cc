// The fence finds code that treats a backend's memory as the host's.

#include "folio/backend/fenced_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "folio/backend/decorated_backends.h"
#include "folio/backend/test_fenced_orders.h"
#include "folio/tensor/memory_plan.h"
#include "tests/kit/expect.h"

namespace folio {
namespace {

// Two buffers of a fenced backend.
struct Buffers {
  explicit Buffers(FencedOrder order) : backend(MakeFencedBackend(order)) {
    x_id = plan.AddMirrored("x", Dtype::kF32, {1, 3});
    y_id = plan.Add("y", Dtype::kF32, {1, 3});
    plan.Place();
    arena = Arena(plan, backend->memory());
    x = arena.GetMirror(plan, x_id);
    y = arena.Get(plan, y_id);
    backend->Run(Fill{.out = x.device, .value = 7});
  }

  std::unique_ptr<Backend> backend;
  MemoryPlan plan;
  MemoryPlan::Id x_id, y_id;
  Arena arena;
  Mirror x;
  Tensor y;
};

class Fence : public testing::TestWithParam<FencedOrder> {
 protected:
  Buffers buffers_{GetParam()};
};

TEST_P(Fence, MirrorsAndCopiesCarryNumbersOverIt) {
  const Mirror& x = buffers_.x;
  EXPECT_EQ(x.host.host<float>()[1], 0) << "nobody has fetched it";
  x.Fetch();
  EXPECT_EQ(x.host.host<float>()[1], 7);
  x.host.host<float>()[1] = 5;
  x.Send();
  EXPECT_EQ(HostCopy(x.device).elements<float>()[1], 5);
  const HostEdit edit(x.device);
  edit.elements<float>()[2] = 4;
  EXPECT_EQ(HostCopy(x.device).elements<float>()[2], 7) << "nobody has sent it";
  edit.Send();
  CopyElements(x.device, buffers_.y);
  const HostCopy copy(buffers_.y);
  EXPECT_EQ(std::vector<float>(copy.elements<float>().begin(), copy.elements<float>().end()),
            (std::vector<float>{7, 5, 4}));
}

TEST_P(Fence, OperationsRunInTheOrderOfTheirBeginnings) {
  const Mirror& x = buffers_.x;
  x.host.host<float>()[0] = 2;
  x.Send();  // behind the Fill that filled x
  buffers_.backend->Run(Scale{.x = x.device, .factor = 3});
  const std::vector<float> ones(3, 1);
  const DeviceCopy copy(Tensor(const_cast<float*>(ones.data()), {1, 3}), "ones",
                        buffers_.backend->memory());
  buffers_.backend->Run(
      ResidualForward{.residual = x.device, .x = copy.tensor(), .out = buffers_.y});
  EXPECT_EQ(HostCopy(buffers_.y).elements<float>()[0], 7);
}

// Faults of each kind: the process ends with the names of tensor and operation.

void ReadByTheHost(const Tensor& x) {
  static_cast<void>(*static_cast<volatile std::byte*>(x.raw()));
}

TEST_P(Fence, AStrayReadIsNamed) {
  buffers_.backend->Wait();
  EXPECT_DEATH(ReadByTheHost(buffers_.x.device),
               "the host touches x in a backend's memory; the last operation was fill\n");
}

TEST_P(Fence, AStrayWriteIsNamed) {
  buffers_.x.Fetch();
  EXPECT_DEATH(buffers_.y.raw()[0] = {},
               "the host touches y in a backend's memory; the last operation was Read\n");
}

TEST_P(Fence, AnAccessWhileAnOperationIsPendingIsNamed) {
  buffers_.x.Fetch();
  buffers_.backend->Run(Scale{.x = buffers_.x.device, .factor = 2});
  const std::string touches = "the host touches x in a backend's memory; the last operation was ";
  EXPECT_DEATH(
      ReadByTheHost(buffers_.x.device),
      touches + (GetParam() == FencedOrder::kLate ? "Read; not done is scale\n" : "scale\n"));
  EXPECT_DEATH(ReadByTheHost(buffers_.y), GetParam() == FencedOrder::kLate
                                              ? "touches y .*; the last operation was Read\n"
                                              : "touches y .*; the last operation was scale\n");
}

TEST_P(Fence, AnAccessToMemoryThatIsFreedIsNamed) {
  auto other = std::make_unique<Buffers>(GetParam());
  const Tensor x = other->x.device, y = other->y;
  other->arena = {};
  EXPECT_DEATH(ReadByTheHost(y),
               "the host touches y in memory that was freed; the last operation was fill\n");
  EXPECT_DEATH(const HostCopy copy(x), "Read outside of this memory: x in memory that was freed");
  EXPECT_DEATH(CopyElements(Tensor(std::vector<float>(3).data(), {1, 3}), y),
               "Write outside of this memory: y in memory that was freed");
  EXPECT_DEATH(other->backend->Run(Scale{.x = x, .factor = 2}),
               "x of scale is not in the backend's memory: x in memory that was freed");
  other.reset();
  EXPECT_DEATH(ReadByTheHost(x),
               "the host touches x in memory that was freed; the last operation was fill\n");
  EXPECT_DEATH(buffers_.backend->Run(Scale{.x = x, .factor = 2}),
               "x of scale is not in the backend's memory: x in memory that was freed");
}

TEST_P(Fence, AnOperandOfAnotherBackendIsNamed) {
  const Buffers other(GetParam());
  EXPECT_DEATH(buffers_.backend->Run(ResidualForward{.x = buffers_.x.device, .out = other.y}),
               "out of residual_forward is not in the backend's memory: y in a backend's memory");
  EXPECT_DEATH(buffers_.backend->memory().Write({}, other.y.raw(), 4),
               "Write outside of this memory: y in a backend's memory");
}

TEST_P(Fence, ATensorBehindItIsNotTheHosts) {
  EXPECT_DEATH(static_cast<void>(buffers_.y.host<float>()), "a tensor in a backend's memory");
  EXPECT_DEATH(static_cast<void>(buffers_.y.First({1, 1}).host_bytes()),
               "a tensor in a backend's memory");
}

TEST_P(Fence, AnOperandOfTheHostIsNamed) {
  std::vector<float> mine(3);
  EXPECT_DEATH(
      buffers_.backend->Run(
          ResidualForward{.x = buffers_.x.device, .out = Tensor(mine.data(), {1, 3})}),
      "out of residual_forward is not in the backend's memory: memory that is no backend's");
}

// Columns of an array, of which the second row has a number that is not finite.
TEST_P(Fence, NumbersThatAreNotFiniteAreFoundInIt) {
  MemoryPlan plan;
  const MemoryPlan::Id id = plan.Add("qkv", Dtype::kF32, {2, 6}),
                       table = plan.Add("t", Dtype::kF32, {2, 2});
  plan.Place();
  FiniteBackend finite(MakeFencedBackend(GetParam()));
  const Arena arena(plan, finite.memory());
  const Tensor qkv = arena.Get(plan, id);
  finite.Watch({.name_of = [&](const std::byte* at) {
    return at == qkv.address() + 8 * sizeof(float) ? "columns" : "";
  }});
  const HostEdit edit(qkv);
  edit.elements<float>()[7] = INFINITY;  // beside the columns
  edit.Send();
  const Rotary op{.x = SequenceView(qkv, 1, 2, 2, 2), .table = arena.Get(plan, table), .D = 2};
  finite.Run(op);
  edit.elements<float>()[8] = INFINITY;
  edit.Send();
  const std::string error = ErrorOf([&] { finite.Run(op); }, ErrorKind::kDiverged);
  EXPECT_TRUE(Contains(error, "element 2 of x (1, 2, 2) is nan", "in columns")) << error;
}

INSTANTIATE_TEST_SUITE_P(Orders, Fence, FencedOrders(), FencedOrderName);

// With late operations, numbers that nobody waited for are not there yet.
TEST(LateOperations, AMissedWaitReadsOldNumbers) {
  Buffers buffers(FencedOrder::kLate);
  buffers.backend->Wait();
  buffers.x.Fetch();
  buffers.backend->Run(Scale{.x = buffers.x.device, .factor = 2});
  EXPECT_EQ(buffers.x.host.host<float>()[0], 7);
  buffers.x.Fetch();
  EXPECT_EQ(buffers.x.host.host<float>()[0], 14);
}

}  // namespace
}  // namespace folio
