#include "nmt/parallel/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "nmt/comm/nccl/communicator.h"
#include "nmt/comm/rank_results.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/parallel/rank_context.h"

namespace babelring {
namespace {

/// True on every rank if an all-reduce of ones gave the world size everywhere. Tolerates 1 %, because bf16 rounds the
/// sum over many ranks.
bool summed_everywhere(Backend& backend, Communicator& communicator, ConstTensor trial) {
  std::vector<float> values(static_cast<std::size_t>(trial.shape.elements()));
  backend.download(trial, values.data());
  const auto ranks = static_cast<float>(communicator.size());
  const bool correct = std::all_of(values.begin(), values.end(),
                                   [ranks](float value) { return value >= 0.99f * ranks && value <= 1.01f * ranks; });
  int wrong = correct ? 0 : 1;
  sum_over_ranks(communicator, [&wrong](auto&& visit) { visit(wrong); });
  return wrong == 0;
}

/// Opens NCCL and tests it with an all-reduce of ones of bucket size.
Result<std::unique_ptr<Communicator>> open_and_try(const CommConfig& config, std::int64_t gradient_bytes,
                                                   Backend& backend, Communicator& communicator,
                                                   const Result<NcclLibrary>& library) {
  const std::int64_t bytes = config.bucket_bytes(gradient_bytes, communicator, true);
  const auto elements = std::max(std::int64_t{1}, bytes / std::int64_t{sizeof(float)});
  std::unique_ptr<DeviceStream> stream = backend.make_stream();
  const std::vector<float> ones(static_cast<std::size_t>(elements), 1.0f);
  const Buffer memory = backend.allocate(ones.size() * sizeof(float), MemoryPurpose::communication);
  const Tensor trial = memory.view({elements}, DType::f32);
  backend.upload(ones.data(), trial);
  const CommOptions common = config.options();
  Result<std::unique_ptr<Communicator>> opened = open_nccl(library, communicator, std::move(stream),
                                                           {.wire = common.wire,
                                                            .ring = config.all_reduce == AllReduceAlgorithm::nccl_ring,
                                                            .deadline = common.deadline,
                                                            .trial = trial});
  if (opened && !summed_everywhere(backend, communicator, trial)) {
    return Error{"a test all-reduce by NCCL gave a wrong sum"};
  }
  return opened;
}

}  // namespace

GradientComm choose_gradient_comm(const CommConfig& config, std::int64_t gradient_bytes, Backend& backend,
                                  Communicator& communicator, const std::function<Result<NcclLibrary>()>& find) {
  if (communicator.size() == 1) return {};
  const bool required =
      config.all_reduce == AllReduceAlgorithm::nccl || config.all_reduce == AllReduceAlgorithm::nccl_ring;
  const auto refuse = [&](const std::string& why) {
    throw UsageFailure(fmt::format("communication.all_reduce {}: {}; use auto", config.all_reduce_word(), why));
  };
  if (backend.host_memory()) {
    if (required) refuse("the gradients are in host memory");
    return {};
  }
  if (!required && config.all_reduce != AllReduceAlgorithm::automatic) {
    return {.nccl = nullptr,
            .line = fmt::format("through host memory, as required by communication.all_reduce={}",
                                config.all_reduce_word())};
  }
  if (config.gradient_wire == GradientWire::int8) {
    constexpr const char* why = "NCCL cannot add int8 messages of communication.gradient_wire";
    if (required) refuse(why);
    return {.nccl = nullptr, .line = fmt::format("through host memory, {}", why)};
  }
  Result<std::unique_ptr<Communicator>> nccl = open_and_try(config, gradient_bytes, backend, communicator, find());
  if (nccl) {
    const std::string line = (*nccl)->description();
    return {.nccl = std::move(nccl).value(), .line = line};
  }
  if (required) refuse(nccl.error());
  return {.nccl = nullptr, .line = fmt::format("through host memory, NCCL is unavailable: {}", nccl.error())};
}

Result<RankGpu> find_gpu(int local_rank) {
  const Result<CudaDevices>& cuda = find_cuda();
  if (!cuda) return Error{cuda.error()};
  const int device = local_rank % cuda->count;  // a job manager may show each rank one GPU, which is then device 0
  std::array<char, 512> text{};
  if (!cuda->module->identify(device, text.data(), text.size())) return Error{text.data()};
  return RankGpu{.device = device, .identity = text.data()};
}

Status check_gpus(const std::vector<Result<json::value>>& identities, const std::vector<std::string>& hosts) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    const Result<json::value>& identity = identities[rank];
    if (!identity) {
      return Error{identities.size() == 1 ? identity.error()
                                          : fmt::format("rank {} on {}: {}", rank, hosts[rank], identity.error())};
    }
    const auto [other, is_new] = rank_of.emplace(identity->as_string(), rank);
    if (is_new) continue;
    return Error{fmt::format("ranks {} and {} on {} would share one GPU, each rank needs its own", other->second, rank,
                             hosts[rank])};
  }
  return {};
}

ChosenBackend choose_backend(DeviceChoice device, int threads, Communicator& communicator) {
  if (device == DeviceChoice::emulated) throw UsageFailure("device emulated: only `worker` emulates; use cpu or cuda");
  if (device == DeviceChoice::cpu) return {make_cpu_backend(threads), Error{"the CPU was requested"}};
  const Result<RankGpu> own = find_gpu(communicator.local_rank());
  const auto identities =
      gather_results(communicator, own ? Result<json::value>(json::string(own->identity)) : Error{own.error()});
  const Status usable = check_gpus(identities, communicator.hosts());
  if (usable) return {make_cuda_backend(own->device), own->identity};
  if (device == DeviceChoice::cuda) {
    throw UsageFailure(fmt::format("device cuda: {}; use auto or cpu", usable.error()));
  }
  return {make_cpu_backend(threads), Error{usable.error()}};
}

}  // namespace babelring
