#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/dry_update.h"
#include "lab/memory/memory_report.h"
#include "lab/op_place.h"
#include "nmt/layers/activation_arenas.h"

namespace babelring {

/// Which tensor of which op lies where in the arenas. Owners are named by the op that wrote the tensor first.
class TensorOwners {
 public:
  /// Notes the tensors that an op has written.
  void note(const OpRun& run, std::string_view layer);
  /// Contents of the used part of the arenas, largest first; tensors of one layer, op and field together.
  std::vector<MemoryOwner> in_use(const ActivationArenas& arenas) const;

 private:
  struct Written {
    std::uintptr_t end = 0;
    std::int64_t bytes = 0;
    std::int64_t stride_bytes = 0;  // 0: contiguous
    MemoryOwner owner;
  };
  void write(const ConstTensor& tensor, bool keeps_owner, MemoryOwner owner);

  std::map<std::uintptr_t, Written> written_;  // by first address
};

/// Measures the memory of one update: the used bytes of both arenas at the end of each op, and what they held at the
/// peak. Does not wait for a device.
class MemoryTrace : public OpObserver {
 public:
  /// Both must outlive the object.
  MemoryTrace(const ParameterStore& store, const ActivationArenas& arenas) : place_(store), arenas_(arenas) {}

  Watch watch() const override { return Watch::order; }
  void enter(const char* range) override { place_.enter(range); }
  void leave() override { place_.leave(); }
  void ran(const OpRun& run) override;

  /// Sets what was measured: the ops, the peak, its owners and the arenas' own peaks.
  void fill(MemoryReport& report) const;

 private:
  OpPlace place_;
  const ActivationArenas& arenas_;
  TensorOwners owners_;
  std::vector<MemoryMoment> moments_;
  std::size_t peak_ = 0;  // index of the first moment with the most bytes
  std::vector<MemoryOwner> at_peak_;
};

/// A report with the precision and the allocations beside the arenas.
MemoryReport describe_memory(const ModelReplica& replica);
/// Measures an update without data, memory or computing.
MemoryReport trace_dry_update(DryUpdate& update);

}  // namespace babelring
