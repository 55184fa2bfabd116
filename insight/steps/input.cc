#include "insight/steps/input.h"

#include "insight/steps/config_scalar.h"

namespace babelring::verdict {

BucketSize bucket_size(const std::string& config, double reported_mb, bool on_gpus) {
  const std::string configured = config_scalar(config, "communication.bucket_mb");
  if (const double mb = number_in(configured); mb > 0) return {mb, BucketSize::Source::configured};
  if (reported_mb > 0) return {reported_mb, BucketSize::Source::chosen};
  if (configured == "auto" && !on_gpus) return {host_bucket_mb, BucketSize::Source::assumed};
  return {};
}

const HostLoad* contended_host(const std::vector<HostLoad>& hosts) {
  const auto relative = [](const HostLoad& host) { return host.others() / static_cast<double>(host.processors); };
  const HostLoad* worst = nullptr;
  for (const HostLoad& host : hosts) {
    const auto processors = static_cast<double>(host.processors);
    // More threads are ready to run than there are processors, and most are not the run's.
    const bool contended = host.processors > 0 && host.load > processors && host.others() >= processors / 2 &&
                           host.others() > host.own_threads;
    if (contended && (worst == nullptr || relative(host) > relative(*worst))) worst = &host;
  }
  return worst;
}

std::string optimizer_placement(const std::string& config, const std::string& reported) {
  if (!reported.empty()) return reported;
  const std::string configured = config_scalar(config, "communication.optimizer");
  return configured == "auto" ? "" : configured;
}

}  // namespace babelring::verdict
