#include "lab/parameters/parameter_trace.h"

#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/json.h"

namespace babelring {

OpObserver* ParameterTrace::begin(const UpdateStart& start) {
  if (replica_ == nullptr) {
    replica_ = &start.replica;
    const bool one_copy = replica_->sharding.shares_copy();
    if (one_copy || replica_->communicator.rank() == 0) {
      counting_.emplace(replica_->model.parameters(), replica_->backend,
                        [this](std::size_t bytes) { return replica_->sharding.allocate(bytes, MemoryPurpose::tools); });
    }
  }
  if (first_update_ == 0) first_update_ = start.update;
  if (counting_) replica_->adam.count_rows(&*counting_);
  return nullptr;
}

void ParameterTrace::end(const StepRecord& record) {
  replica_->adam.count_rows(nullptr);
  last_update_ = record.update;
  if (!record.skipped) ++updates_;
  if (record.update % options_.window == 0) write();
}

void ParameterTrace::finish() {
  if (first_update_ != 0) write();
}

/// Ends the window. Other ranks count on only after the next sum of gradients, which rank 0 enters later.
void ParameterTrace::write() {
  ParameterWindow window{.run = options_.run,
                         .time_ms = wall_time_ms(),
                         .first_update = std::exchange(first_update_, 0),
                         .last_update = last_update_,
                         .updates = std::exchange(updates_, 0),
                         .heads = options_.heads,
                         .parameters = {},
                         .rows = {}};
  if (replica_->communicator.rank() != 0) return;
  if (window.updates == 0) {
    spdlog::error("lab.parameters: updates {} to {} were all skipped; their window is not written", window.first_update,
                  window.last_update);
    return;
  }
  const ParameterStore& store = replica_->model.parameters();
  window.precision = name_of(store.compute_copies() ? DType::bf16 : DType::f32);
  window.parameters = traced_parameters(store, replica_->adam);
  window.rows = counting_->read();
  counting_->reset();
  for (const RowCount& row : window.rows) {
    if (row.counted == window.updates) continue;
    fail("lab.parameters: a row was counted in {} of {} updates", row.counted, window.updates);
  }
  const std::string name = window_name(window.last_update);
  Artifact artifact{.kind = "parameters", .name = name + ".safetensors", .update = window.last_update};
  files_.write(artifact, [&window](const std::filesystem::path& file) { write_rows(window, file); });
  artifact.name = name + ".json";
  artifact.content = window_json(window, options_.vocabulary);
  files_.write(artifact, to_text(artifact.content) + "\n");
}

}  // namespace babelring
