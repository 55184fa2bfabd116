#include "lab/memory/memory_tool.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

namespace babelring {

OpObserver* MemoryTool::begin(const UpdateStart& start) {
  trace_.reset();
  if (start.update != config_.at) return nullptr;
  replica_ = &start.replica;
  return &trace_.emplace(replica_->model.parameters(), replica_->arenas);
}

void MemoryTool::end(const StepRecord& record) {
  if (!trace_) return;
  MemoryReport report = describe_memory(*replica_);
  report.update = record.update;
  report.rank = rank_;
  report.device = replica_->backend.host_memory() ? "cpu" : "cuda";
  report.source_tokens = record.source_tokens;
  report.target_tokens = record.target_tokens;
  trace_->fill(report);
  trace_.reset();
  const json::object content = to_json(report);
  folder_->write({.kind = "memory",
                  .name = fmt::format("memory-update-{:08}-rank-{}.json", record.update, rank_),
                  .update = record.update,
                  .content = content},
                 to_text(content) + '\n');
}

}  // namespace babelring
