#include "nmt/parallel/device.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "nmt/ops/cuda_module.h"

namespace babelring {

DeviceReport report_device(int local_rank) {
  const CudaSupport& cuda = find_cuda();
  if (cuda.devices == 0) return {.why = cuda.why};
  // A job manager may expose a single GPU to each rank. It is then device 0 on all ranks.
  DeviceReport report{.device = local_rank % cuda.devices};
  std::array<char, 512> text{};
  const bool usable = cuda.module->identify(report.device, text.data(), text.size());
  (usable ? report.identity : report.why) = text.data();
  return report;
}

std::string why_not_cuda(const std::vector<DeviceReport>& reports, const std::vector<std::string>& hosts) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const DeviceReport& report = reports[rank];
    if (report.identity.empty()) {
      return reports.size() == 1 ? report.why : fmt::format("rank {} on {}: {}", rank, hosts[rank], report.why);
    }
    const auto [other, is_new] = rank_of.emplace(report.identity, rank);
    if (is_new) continue;
    return fmt::format("ranks {} and {} on {} would share one GPU, each rank needs its own", other->second, rank,
                       hosts[rank]);
  }
  return "";
}

ChosenBackend choose_backend(DeviceChoice device, int threads, Communicator& communicator) {
  if (device == DeviceChoice::cpu) return {make_cpu_backend(threads), "", ""};
  const DeviceReport own = report_device(communicator.local_rank());
  std::vector<DeviceReport> reports;
  for (const std::string& text : communicator.all_gather((own.identity.empty() ? "-" + own.why : "+" + own.identity))) {
    (text[0] == '+' ? reports.emplace_back().identity : reports.emplace_back().why) = text.substr(1);
  }
  const std::string why = why_not_cuda(reports, communicator.hosts());
  if (why.empty()) return {make_cuda_backend(own.device), "", own.identity};
  if (device == DeviceChoice::cuda) throw UsageFailure(fmt::format("device cuda: {}; use auto or cpu", why));
  return {make_cpu_backend(threads), why, ""};
}

}  // namespace babelring
