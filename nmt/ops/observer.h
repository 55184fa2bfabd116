#pragma once

#include <span>
#include <string_view>

#include "base/clock.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/op_fields.h"

namespace babelring {

/// A tensor that an op accesses, under its name in the op.
struct OpField {
  std::string_view name;
  ConstTensor tensor;
  Access access = Access::reads;
};

/// One run of an op. The views are valid during the call that receives them.
struct OpRun {
  std::string_view op;
  OpCost cost;
  SteadyClock::time_point begin, end;
  std::span<const OpField> fields;  // the present ones, in the op's order
};

/// How closely an observer watches ops.
enum class Watch {
  order,   // names, costs and addresses of the ops; a device is not waited for
  times,   // also how long each op takes: the backend waits for the device after every op
  values,  // also the elements of tensors: like `times`, and everything before an op is complete when it begins
};

/// Sees every op that a backend runs and the ranges of its work. Called by the backend's thread. An observer may
/// download tensors, but must not run ops on the backend.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual Watch watch() const = 0;
  /// A WorkRange begins: "forward", "encoder.0", "optimizer". Ranges nest.
  virtual void enter(const char* range) { static_cast<void>(range); }
  /// The innermost range ends.
  virtual void leave() {}
  /// Before an op that updates a tensor in place; `begin` and `end` are not set.
  virtual void begins(const OpRun& run) { static_cast<void>(run); }
  /// After each op.
  virtual void ran(const OpRun& run) = 0;
};

}  // namespace babelring
