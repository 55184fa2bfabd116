#include "lab/memory/memory_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <tuple>
#include <utility>

#include "nmt/train/setup/memory_plan.h"

namespace babelring {
namespace {

constexpr std::size_t max_owners = 10;

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

std::uintptr_t end_of(const ConstTensor& tensor) {
  const std::int64_t elements = (tensor.rows() - 1) * tensor.row_stride + tensor.columns();
  return address_of(tensor.data) + static_cast<std::uintptr_t>(elements) * size_of(tensor.dtype);
}

/// Whether two row-strided tensors are different columns of one matrix.
bool different_columns(std::uintptr_t a, std::uintptr_t b, std::int64_t stride_a, std::int64_t stride_b) {
  return stride_a != 0 && stride_a == stride_b && (a > b ? a - b : b - a) % static_cast<std::uintptr_t>(stride_a) != 0;
}

}  // namespace

void TensorOwners::note(const OpRun& run, std::string_view layer) {
  for (const OpField& field : run.fields) {
    if (field.access != Access::writes && field.access != Access::updates) continue;
    if (field.tensor.shape.elements() == 0) continue;
    write(field.tensor, field.access == Access::updates,
          {.layer = std::string(layer), .op = std::string(run.op), .field = std::string(field.name)});
  }
}

/// `keeps_owner`: a tensor that is updated in place belongs to the op that wrote it first.
void TensorOwners::write(const ConstTensor& tensor, bool keeps_owner, MemoryOwner owner) {
  const std::uintptr_t begin = address_of(tensor.data), end = end_of(tensor);
  const std::int64_t stride =
      tensor.contiguous() ? 0 : tensor.row_stride * static_cast<std::int64_t>(size_of(tensor.dtype));
  auto next = written_.upper_bound(begin);
  while (next != written_.begin() && std::prev(next)->second.end > begin) --next;
  while (next != written_.end() && next->first < end) {
    if (different_columns(begin, next->first, stride, next->second.stride_bytes)) {
      ++next;
    } else if (keeps_owner) {
      return;
    } else {
      next = written_.erase(next);
    }
  }
  written_[begin] = {end, static_cast<std::int64_t>(tensor.bytes()), stride, std::move(owner)};
}

std::vector<MemoryOwner> TensorOwners::in_use(const ActivationArenas& arenas) const {
  std::map<std::tuple<std::string, std::string, std::string>, std::int64_t> sums;
  for (const auto& [address, written] : written_) {
    const void* data = reinterpret_cast<const void*>(address);  // NOLINT: never read
    if (!arenas.saved().holds(data) && !arenas.scratch().holds(data)) continue;
    sums[{written.owner.layer, written.owner.op, written.owner.field}] += written.bytes;
  }
  std::vector<MemoryOwner> owners;
  for (const auto& [name, bytes] : sums) {
    owners.push_back({std::get<0>(name), std::get<1>(name), std::get<2>(name), bytes});
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
  return owners;
}

void MemoryTrace::ran(const OpRun& run) {
  const std::string_view layer = place_.layer(run);
  owners_.note(run, layer);
  moments_.push_back({.phase = std::string(place_.phase()),
                      .layer = std::string(layer),
                      .op = std::string(run.op),
                      .saved = static_cast<std::int64_t>(arenas_.saved().used_bytes()),
                      .scratch = static_cast<std::int64_t>(arenas_.scratch().used_bytes())});
  const bool first = moments_.size() == 1;
  if (!first && moments_.back().bytes() <= moments_[peak_].bytes()) return;
  peak_ = moments_.size() - 1;
  at_peak_ = owners_.in_use(arenas_);
}

void MemoryTrace::fill(MemoryReport& report) const {
  report.moments = moments_;
  report.peak = peak_;
  report.saved_peak = static_cast<std::int64_t>(arenas_.saved().peak_bytes());
  report.scratch_peak = static_cast<std::int64_t>(arenas_.scratch().peak_bytes());
  report.owners.assign(at_peak_.begin(), at_peak_.begin() + std::min(at_peak_.size(), max_owners));
  report.other = moments_.empty() ? 0 : moments_[peak_].bytes();
  for (const MemoryOwner& owner : report.owners) report.other -= owner.bytes;
}

MemoryReport describe_memory(const ModelReplica& replica) {
  MemoryReport report{.precision = std::string(name_of(replica.model.compute_dtype()))};
  const MemoryUse use = replica.backend.ledger().live();
  for (std::size_t i = 0; i < memory_purposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    if (purpose == MemoryPurpose::activations || purpose == MemoryPurpose::scratch || use.of(purpose) == 0) continue;
    report.beside_arenas[std::string(name_of(purpose))] = use.of(purpose);
  }
  return report;
}

MemoryReport trace_dry_update(DryUpdate& update) {
  ModelReplica& replica = update.replica();
  const DryBatch& sizes = update.sizes();
  // One block for each arena, so that a single mark bounds the used part.
  replica.arenas.reserve(
      dry_run(replica.model, replica.backend, sizes.source_tokens, sizes.target_tokens, sizes.sentences));
  MemoryTrace trace(replica.model.parameters(), replica.arenas);
  replica.backend.observe(&trace);
  update.run();
  replica.backend.observe(nullptr);
  MemoryReport report = describe_memory(replica);
  report.device = update.device();
  report.source_tokens = sizes.source_tokens;
  report.target_tokens = sizes.target_tokens;
  trace.fill(report);
  return report;
}

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
