#include "nmt/ops/cuda/cudnn_plans.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "nmt/ops/cuda/cudnn_attention_graphs.h"

namespace babelring::cuda {

namespace {

constexpr std::int64_t widest_cudnn_head = 128;
constexpr std::int64_t max_configurations = 8;
constexpr std::int64_t scratch_alignment = 256;

/// Ends a handle; null without a library.
struct CudnnHandleEnd {
  const CudnnLibrary* library = nullptr;
  void operator()(cudnnContext* handle) const { library->destroy(handle); }
};
using CudnnHandle = std::unique_ptr<cudnnContext, CudnnHandleEnd>;

/// Before 9.0 engines take no packed statistics.
Status check_capability(int capability) {
  if (capability / 10 == 9 || capability / 10 == 10) return {};
  return Error{
      fmt::format("the GPU has compute capability {}.{}, 9.x or 10.x is needed", capability / 10, capability % 10)};
}

/// Checks the limits of cuDNN's engines that are known beforehand.
Status check_shape(const CudnnShape& shape) {
  if (shape.head_width % 8 != 0 || shape.head_width > widest_cudnn_head) {
    return Error{
        fmt::format("heads are {} wide, a multiple of 8 up to {} is needed", shape.head_width, widest_cudnn_head)};
  }
  for (const Packed rows :
       {Packed::q, Packed::k, Packed::v, Packed::out, Packed::dout, Packed::dq, Packed::dk, Packed::dv}) {
    const std::int64_t stride = shape.strides.of(rows);
    if (stride % 8 != 0) return Error{fmt::format("rows are {} elements apart, a multiple of 8 is needed", stride)};
  }
  return {};
}

struct KeptPlan {
  Result<std::int64_t> workspace_bytes;  // the Error says why there is no plan
  std::optional<CudnnDescriptor> plan;
  std::int64_t own_bytes = 0;  // of the workspace; row sums follow
};

/// Places of tensors under their numbers.
class Pack {
 public:
  void add(std::int64_t number, const void* place) {
    numbers_.push_back(number);
    places_.push_back(const_cast<void*>(place));
  }
  CudnnDescriptor finish(const CudnnLibrary& library, void* workspace) const {
    CudnnDescriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "places of tensors");
    pack.set_list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers_);
    pack.set_raw(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(places_), places_.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
    pack.finalize();
    return pack;
  }

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<void*> places_;
};

}  // namespace

struct CudnnPlans::Library {
  CudnnDevice device;
  Result<std::unique_ptr<const CudnnLibrary>> opened = Error{};
  const CudnnLibrary* functions = nullptr;   // of `opened`
  CudnnHandle handle;                        // made when the first plan is
  cudaStream_t stream = nullptr;             // the handle's
  std::optional<CudnnDescriptor> described;  // the device, where it is only described
  std::map<CudnnShape, KeptPlan> plans;

  void meet_device();
  KeptPlan make(const CudnnShape& shape);
  std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph) const;
  CudnnDescriptor finish_plan(const CudnnDescriptor& configuration) const;
};

/// Takes a handle of the current device, or describes another.
void CudnnPlans::Library::meet_device() {
  if (handle != nullptr || described) return;
  if (device.description.empty()) {
    cudnnHandle_t made = nullptr;
    functions->require(functions->create(&made), "a handle");
    handle = CudnnHandle(made, {functions});
    return;
  }
  CudnnDescriptor properties(*functions, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device");
  properties.set_raw(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::ssize(device.description) + 1,
                     device.description.c_str());
  properties.finalize();
  described.emplace(std::move(properties));
}

/// What cuDNN would run the graph by, the best first.
std::vector<CudnnDescriptor> CudnnPlans::Library::configurations(const CudnnDescriptor& graph) const {
  CudnnDescriptor heuristics(*functions, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (described) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *described);
  heuristics.finalize();
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < max_configurations; ++i) {
    found.emplace_back(*functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "a configuration");
    handles.push_back(found.back().handle());
  }
  const std::int64_t count = heuristics.get_raw(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                max_configurations, handles.data());
  while (std::ssize(found) > count) found.pop_back();
  return found;
}

CudnnDescriptor CudnnPlans::Library::finish_plan(const CudnnDescriptor& configuration) const {
  CudnnDescriptor plan(*functions, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  if (handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle.get());
  if (described) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *described);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  plan.finalize();
  return plan;
}

KeptPlan CudnnPlans::Library::make(const CudnnShape& shape) {
  if (!opened) return {.workspace_bytes = Error{opened.error()}, .plan = {}};
  if (const Status fits = check_shape(shape); !fits) return {.workspace_bytes = Error{fits.error()}, .plan = {}};
  KeptPlan kept{.workspace_bytes =
                    Error{fmt::format("cuDNN {} has no engine for it", cudnn_version_text(functions->get_version()))},
                .plan = {}};
  try {
    meet_device();
    const CudnnGraph operations =
        shape.backward ? attention_backward_graph(*functions, shape) : attention_forward_graph(*functions, shape);
    const CudnnDescriptor graph = operations.finish(handle.get());
    for (const CudnnDescriptor& configuration : configurations(graph)) {
      try {
        kept.plan.emplace(finish_plan(configuration));
        break;
      } catch (const Failure& failure) {
        kept.workspace_bytes = Error{failure.what()};
      }
    }
  } catch (const Failure& failure) {
    kept.workspace_bytes = Error{failure.what()};
  }
  if (!kept.plan) return kept;
  kept.plan->get_raw(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &kept.own_bytes);
  kept.own_bytes = (kept.own_bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
  kept.workspace_bytes = kept.own_bytes + (shape.backward ? row_sums_bytes(shape) : 0);
  return kept;
}

CudnnPlans::CudnnPlans(CudnnDevice device, const std::string& library) : library_(std::make_unique<Library>()) {
  const Status capable = check_capability(device.capability);
  if (capable) {
    library_->opened = open_cudnn(library);
  } else {
    library_->opened = Error{capable.error()};
  }
  if (library_->opened) library_->functions = library_->opened->get();
  library_->device = std::move(device);
}
CudnnPlans::~CudnnPlans() = default;

std::string CudnnPlans::description() const {
  if (!library_->opened) return "no cuDNN: " + library_->opened.error();
  return "cuDNN " + cudnn_version_text(library_->functions->get_version());
}

const Result<std::int64_t>& CudnnPlans::workspace_bytes(const CudnnShape& shape) {
  const auto place = library_->plans.find(shape);
  if (place != library_->plans.end()) return place->second.workspace_bytes;
  return library_->plans.emplace(shape, library_->make(shape)).first->second.workspace_bytes;
}

void CudnnPlans::run(const CudnnShape& shape, const CudnnOperands& operands, void* stream) {
  const KeptPlan& kept = library_->plans.at(shape);
  const CudnnLibrary& functions = *library_->functions;
  const float minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  Pack pack;
  for (std::size_t i = 0; i < operands.rows.size(); ++i) {
    if (operands.rows[i] == nullptr) continue;
    const auto number = static_cast<std::int64_t>(i) + 1;
    pack.add(number, operands.rows[i]);
    pack.add(cudnn_number::first_starts + number, operands.starts[i]);
  }
  pack.add(cudnn_number::query_lengths, operands.query_lengths);
  pack.add(cudnn_number::key_lengths, operands.key_lengths);
  pack.add(cudnn_number::scale, &operands.scale);
  pack.add(cudnn_number::minus_infinity, &minus_infinity);
  if (shape.backward) {
    pack.add(cudnn_number::one, &one);
    pack.add(cudnn_number::row_sums, static_cast<char*>(operands.workspace) + kept.own_bytes);
  }
  const CudnnDescriptor places = pack.finish(functions, operands.workspace);
  if (library_->stream != stream) {
    library_->stream = static_cast<cudaStream_t>(stream);
    functions.require(functions.set_stream(library_->handle.get(), library_->stream), "a stream");
  }
  functions.require(functions.execute(library_->handle.get(), kept.plan->handle(), places.handle()),
                    shape.backward ? "attention_backward" : "attention_forward");
}

}  // namespace babelring::cuda
