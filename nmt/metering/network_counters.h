#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// Bytes received and sent.
struct NetworkBytes {
  std::int64_t rx = 0, tx = 0;
  bool operator==(const NetworkBytes&) const = default;
};

/// The text of /proc/net/dev: interface → bytes since it came up. The Error quotes the line that is not one.
Result<std::map<std::string, NetworkBytes>> parse_network_counters(std::string_view text);

/// The same of this machine now, without bridges and bonds, whose traffic their members count already. Empty where the
/// kernel has no such file.
std::map<std::string, NetworkBytes> read_network_counters(const std::filesystem::path& counters = "/proc/net/dev",
                                                          const std::filesystem::path& interfaces = "/sys/class/net");

/// Network traffic of this host, from the kernel's interface counters. All ranks of a host would read the same figures,
/// so exactly one of them reports: the others get zeros and a sum over ranks counts every byte once.
///
/// Counted are all interfaces of read_network_counters() but `lo`. Only while these carried nothing at all is it `lo`
/// that counts: a run within one host over TCP.
class NetworkCounters {
 public:
  /// `reports`: whether this rank is its host's first. The paths are for tests.
  explicit NetworkCounters(bool reports, std::filesystem::path counters = "/proc/net/dev",
                           std::filesystem::path interfaces = "/sys/class/net");

  /// Traffic since the last call, or since it was made. Zeros where the kernel has no such file; an interface that
  /// appears, vanishes or starts again from zero counts from its next reading on.
  NetworkBytes lap();

  /// What the link that has carried the most in all laps can carry one way: the interface's own speed, or that of the
  /// bond which it is a member of. 0 before anything was carried, where the kernel does not know the speed, and
  /// of the virtual interface of a container.
  std::int64_t link_bytes_per_second() const { return link_bytes_per_second_; }

 private:
  std::map<std::string, NetworkBytes> read() const;
  void follow_busiest();
  bool is_pair_end(const std::string& name) const;
  std::int64_t speed_of(const std::string& name) const;

  bool reports_;
  std::filesystem::path counters_, interfaces_;
  std::map<std::string, NetworkBytes> last_;
  std::map<std::string, std::int64_t> carried_;  // both ways, by all but loopback
  std::string busiest_;
  std::int64_t link_bytes_per_second_ = 0;
};

}  // namespace babelring
