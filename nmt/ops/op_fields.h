#pragma once

#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring {

/// How an op accesses a tensor.
enum class Access {
  reads,
  writes,      // does not depend on the old elements
  updates,     // reads and writes
  reads_host,  // reads a list that is in host memory on every backend
};

/// Passes the present fields of an op to each(name, tensor, access). An op names its fields in a static member, once
/// for const and non-const ops:
///   static void fields(auto& op, auto&& f) { f.reads("x", op.x).writes("y", op.y); }
template <class Each>
class FieldVisitor {
 public:
  explicit FieldVisitor(Each& each) : each_(each) {}

  template <class View>
  FieldVisitor& reads(std::string_view name, View& tensor) {
    return visit(name, tensor, Access::reads);
  }
  template <class View>
  FieldVisitor& writes(std::string_view name, View& tensor) {
    return visit(name, tensor, Access::writes);
  }
  template <class View>
  FieldVisitor& updates(std::string_view name, View& tensor) {
    return visit(name, tensor, Access::updates);
  }
  template <class View>
  FieldVisitor& reads_host(std::string_view name, View& tensor) {
    return visit(name, tensor, Access::reads_host);
  }

 private:
  template <class View>
  FieldVisitor& visit(std::string_view name, View& tensor, Access access) {
    if (tensor) each_(name, tensor, access);
    return *this;
  }
  Each& each_;
};

/// Calls each(name, tensor, access) for every present tensor of an op. `tensor` is a Tensor& or ConstTensor& of the op
/// itself, const if the op is.
template <class Op, class Each>
void for_each_field(Op& op, Each&& each) {
  Op::fields(op, FieldVisitor(each));
}

/// Total bytes of the op's fields; updated fields count twice, lists in host memory not at all.
template <class Op>
double field_bytes(const Op& op) {
  double bytes = 0;
  for_each_field(op, [&bytes](std::string_view, const ConstTensor& tensor, Access access) {
    if (access == Access::reads_host) return;
    bytes += static_cast<double>(tensor.bytes()) * (access == Access::updates ? 2 : 1);
  });
  return bytes;
}

/// Min work of an op.
struct OpCost {
  double flops = 0;  // matmul operations
  double bytes = 0;  // bytes read and written: each operand once, or twice if it is added to or updated
};

/// Matmul operations of an op: op.flops() if the op declares it, otherwise 0.
template <class Op>
double flops_of(const Op& op) {
  if constexpr (requires { op.flops(); }) {
    return op.flops();
  } else {
    return 0;
  }
}

/// op.bytes() if the op declares it, otherwise field_bytes().
template <class Op>
OpCost cost_of(const Op& op) {
  if constexpr (requires { op.bytes(); }) {
    return {flops_of(op), op.bytes()};
  } else {
    return {flops_of(op), field_bytes(op)};
  }
}

}  // namespace babelring
