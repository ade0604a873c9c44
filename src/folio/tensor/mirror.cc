#include "folio/tensor/mirror.h"

#include <cstring>

namespace folio {

HostCopy::HostCopy(const Tensor& x, Unread) : host_(x) {
  if (x.on_host()) return;
  copy_.reset(new std::byte[x.bytes()]);
  host_ = Tensor(copy_.get(), x.dtype(), x.shape());
}

HostCopy::HostCopy(const Tensor& x) : HostCopy(x, Unread()) {
  Mirror{x, host_}.Fetch();
}

void CopyElements(const Tensor& from, const Tensor& to) {
  FOLIO_CHECK(from.bytes() == to.bytes(), "a copy has another size");
  if (from.on_host()) {
    to.memory().Write(from.raw(), to.raw(), from.bytes());
  } else {
    const HostCopy copy(from);
    CopyElements(copy.tensor(), to);
  }
}

}  // namespace folio
