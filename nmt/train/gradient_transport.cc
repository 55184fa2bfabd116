#include "nmt/train/gradient_transport.h"

#include <algorithm>
#include <vector>

#include "nmt/comm/nccl/nccl_communicator.h"

namespace babelring {
namespace {

/// Whether the ranks' ones were summed, on all of them. In bf16 the sum of very many is rounded.
bool summed_everywhere(Backend& backend, Communicator& communicator, ConstTensor trial) {
  std::vector<float> values(static_cast<std::size_t>(trial.shape.elements()));
  backend.download(trial, values.data());
  const auto ranks = static_cast<float>(communicator.size());
  const bool right = std::all_of(values.begin(), values.end(),
                                 [ranks](float value) { return value >= 0.99f * ranks && value <= 1.01f * ranks; });
  std::vector<double> wrong{right ? 0.0 : 1.0};
  communicator.sum(wrong);
  return wrong[0] == 0;
}

/// Sums ones once, as large as a bucket.
OpenedNccl open_and_try(const CommConfig& config, std::int64_t gradient_bytes, Backend& backend,
                        Communicator& communicator, const NcclLibrary& library) {
  const std::int64_t bytes = config.bucket_bytes(gradient_bytes, communicator, true);
  const auto elements = std::max(std::int64_t{1}, bytes / std::int64_t{sizeof(float)});
  std::unique_ptr<DeviceStream> stream = backend.make_stream();
  const std::vector<float> ones(static_cast<std::size_t>(elements), 1.0f);
  const Buffer memory = backend.allocate(ones.size() * sizeof(float));
  const Tensor trial = memory.view({elements}, DType::f32);
  backend.upload(ones.data(), trial);
  const CommOptions common = config.options();
  OpenedNccl opened = open_nccl(
      library, communicator, std::move(stream),
      {.wire = common.wire, .ring = config.all_reduce == "nccl_ring", .deadline = common.deadline, .trial = trial});
  if (opened.communicator != nullptr && !summed_everywhere(backend, communicator, trial)) {
    opened = {.communicator = nullptr, .why = "a sum of ones by NCCL was wrong"};
  }
  return opened;
}

}  // namespace

GradientTransport choose_gradient_transport(const CommConfig& config, std::int64_t gradient_bytes, Backend& backend,
                                            Communicator& communicator, const std::function<NcclLibrary()>& find) {
  if (communicator.size() == 1) return {};
  const bool wished = config.all_reduce == "nccl" || config.all_reduce == "nccl_ring";
  const auto refuse = [&](const std::string& why) {
    throw UsageFailure(fmt::format("communication.all_reduce {}: {}; use auto", config.all_reduce, why));
  };
  if (backend.host_memory()) {
    if (wished) refuse("the gradients are in the host's memory");
    return {};
  }
  if (!wished && config.all_reduce != "auto") {
    return {.nccl = nullptr,
            .line = fmt::format("through the host's memory, as communication.all_reduce={} asks", config.all_reduce)};
  }
  OpenedNccl opened = open_and_try(config, gradient_bytes, backend, communicator, find());
  if (opened.communicator != nullptr) {
    const std::string line = opened.communicator->description();
    return {.nccl = std::move(opened.communicator), .line = line};
  }
  if (wished) refuse(opened.why);
  return {.nccl = nullptr, .line = fmt::format("through the host's memory, not by NCCL: {}", opened.why)};
}

}  // namespace babelring
