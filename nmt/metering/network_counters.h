#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring {

/// Bytes received (rx) and sent (tx).
struct NetworkBytes {
  std::int64_t rx = 0, tx = 0;
  bool operator==(const NetworkBytes&) const = default;
};

/// Parses the text of /proc/net/dev: interface → bytes since it came up. The Error quotes the invalid line.
Result<std::map<std::string, NetworkBytes>> parse_network_counters(std::string_view text);

/// Where the kernel shows its counters. Tests pass their own folders.
struct NetworkFiles {
  std::filesystem::path counters = "/proc/net/dev";
  std::filesystem::path interfaces = "/sys/class/net";
  std::filesystem::path infiniband = "/sys/class/infiniband";
};

/// True for an interface (a folder below /sys/class/net) without a device below it, such as the end of a veth pair in a
/// container, a tunnel or a tap. The speed that its driver reports is nominal and says nothing about the physical link.
bool is_virtual_interface(const std::filesystem::path& interface);

/// The current counters of this machine: of network interfaces, and of ports for RDMA ("mlx5_0/1"), whose traffic
/// passes the interfaces by. Leaves out bridges and bonds, whose members already count their traffic, and the
/// interfaces of IP over InfiniBand, where ports count it. Empty if the file of counters is missing or invalid.
std::map<std::string, NetworkBytes> read_network_counters(const NetworkFiles& files = {});

/// Network traffic of this host, from the kernel's counters. All ranks of a host would read the same values,
/// so only one of them reports and the others return zeros. A sum over ranks thus counts every byte once.
///
/// Counts all interfaces of read_network_counters() except `lo`. A lap in which none of them had traffic counts `lo`
/// instead, for runs on one host over TCP.
class NetworkCounters {
 public:
  /// `reports`: true on the first rank of each host.
  explicit NetworkCounters(bool reports, NetworkFiles files = {});

  /// Traffic since the last call or construction. An interface that appears, disappears or restarts at zero does not
  /// count in that lap.
  NetworkBytes lap();

  /// Speed of the busiest interface so far, or of its bond, in one direction. 0 before any traffic, if the kernel does
  /// not know the speed, and for a virtual interface, as in a container.
  std::int64_t link_bytes_per_second() const { return link_bytes_per_second_; }

 private:
  std::map<std::string, NetworkBytes> read() const;
  void follow_busiest();
  std::int64_t speed_of(const std::string& name) const;

  bool reports_;
  NetworkFiles files_;
  std::map<std::string, NetworkBytes> last_;
  std::map<std::string, std::int64_t> carried_;  // rx + tx bytes per interface, except loopback
  std::string busiest_;
  std::int64_t link_bytes_per_second_ = 0;
};

}  // namespace babelring
