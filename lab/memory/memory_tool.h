#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lab/lab_folder.h"
#include "lab/memory/memory_trace.h"
#include "nmt/train/setup/lab_config.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

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
