#pragma once

#include "folio/backend/backend.h"

namespace folio {

// A Backend whose operations are all one template: Derived has
// `template <class Op> void Apply(const Op& op)`, and each Run calls it.
template <class Derived, class List = Operations>
class GenericBackend;

template <class Derived>
class GenericBackend<Derived, OperationList<>> : public Backend {
 public:
  using Backend::Run;
};

template <class Derived, class Op, class... Rest>
class GenericBackend<Derived, OperationList<Op, Rest...>>
    : public GenericBackend<Derived, OperationList<Rest...>> {
 public:
  using GenericBackend<Derived, OperationList<Rest...>>::Run;
  void Run(const Op& op) final { static_cast<Derived*>(this)->Apply(op); }
};

}  // namespace folio
