#include "nmt/parallel/device.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "nmt/comm/rank_results.h"
#include "nmt/ops/cuda_module.h"

namespace babelring {

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
