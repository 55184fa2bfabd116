#include "nmt/core/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "nmt/core/control_groups.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The group's own quota in CPUs.
std::optional<double> quota_of(const fs::path& group) {
  double quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) return quota / period;  // "150000 100000", "max 100000"
  if (std::ifstream(group / "cpu.cfs_quota_us") >> quota && quota > 0 &&           // -1: none
      std::ifstream(group / "cpu.cfs_period_us") >> period) {
    return quota / period;
  }
  return std::nullopt;
}

}  // namespace

int Processors::count() const {
  const int number = static_cast<int>(allowed.size());
  const bool limited = quota > 0 && quota < number;
  return std::max(1, limited ? static_cast<int>(std::floor(quota)) : number);
}

double processor_quota(const fs::path& proc, const fs::path& groups) {
  double smallest = 0;
  for (const fs::path& group : control_groups("cpu", proc, groups)) {
    const std::optional<double> quota = quota_of(group);
    if (quota && *quota > 0) smallest = smallest > 0 ? std::min(smallest, *quota) : *quota;
  }
  return smallest;
}

Processors own_processors() {
  Processors own{.allowed = {}, .quota = processor_quota()};
  for (int size = CPU_SETSIZE; size <= 64 * CPU_SETSIZE; size *= 2) {
    cpu_set_t* set = CPU_ALLOC(size);
    const bool large_enough = sched_getaffinity(0, CPU_ALLOC_SIZE(size), set) == 0;
    for (int number = 0; large_enough && number < size; ++number) {
      if (CPU_ISSET_S(number, CPU_ALLOC_SIZE(size), set)) own.allowed.push_back(number);
    }
    CPU_FREE(set);
    if (large_enough) return own;
  }
  for (unsigned number = 0; number < std::max(1U, std::thread::hardware_concurrency()); ++number) {
    own.allowed.push_back(static_cast<int>(number));
  }
  return own;
}

int threads_of_rank(const std::vector<Processors>& ranks, std::size_t own) {
  double share = 0;
  for (const int number : ranks[own].allowed) {
    const auto sharers = std::count_if(ranks.begin(), ranks.end(), [number](const Processors& rank) {
      return std::binary_search(rank.allowed.begin(), rank.allowed.end(), number);
    });
    share += 1.0 / static_cast<double>(sharers);
  }
  const double quota = ranks[own].quota;
  if (quota > 0) share = std::min(share, quota / static_cast<double>(ranks.size()));
  return std::max(1, static_cast<int>(share + 1e-6));
}

}  // namespace babelring
