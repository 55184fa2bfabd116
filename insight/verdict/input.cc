#include "insight/verdict/input.h"

namespace babelring::verdict {

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

}  // namespace babelring::verdict
