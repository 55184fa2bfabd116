#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/dry_update.h"
#include "lab/lab_folder.h"
#include "lab/memory/memory_report.h"
#include "lab/op_place.h"
#include "nmt/layers/context.h"
#include "nmt/train/setup/lab_config.h"
#include "nmt/train/update/update_observer.h"

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

/// Traces the memory of one update of a rank into memory-update-N-rank-R.json.
class MemoryTool : public UpdateObserver {
 public:
  MemoryTool(const MemoryTraceConfig& config, std::shared_ptr<LabFolder> folder, std::int64_t rank)
      : config_(config), folder_(std::move(folder)), rank_(rank) {}

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;

 private:
  const MemoryTraceConfig config_;
  const std::shared_ptr<LabFolder> folder_;
  const std::int64_t rank_;
  ModelReplica* replica_ = nullptr;   // of the update that is traced
  std::optional<MemoryTrace> trace_;  // of the current update
};

}  // namespace babelring
