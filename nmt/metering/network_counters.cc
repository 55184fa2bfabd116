#include "nmt/metering/network_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace babelring {
namespace {

/// "  eth0: 1 2 3 …": sixteen numbers. The first is bytes received, the ninth bytes sent.
bool parse_line(const std::string& line, std::string& name, NetworkBytes& bytes) {
  const auto colon = line.find(':');
  if (colon == std::string::npos) return false;
  std::istringstream(line.substr(0, colon)) >> name;
  std::istringstream numbers(line.substr(colon + 1));
  std::int64_t skipped = 0;
  numbers >> bytes.rx;
  for (int i = 0; i < 7; ++i) numbers >> skipped;
  numbers >> bytes.tx;
  return !name.empty() && !numbers.fail();
}

template <class Number>
Number read_number(const std::filesystem::path& file) {
  Number number{};
  std::ifstream(file) >> number;
  return number;
}

constexpr int infiniband_type = 32;            // ARPHRD_INFINIBAND: an interface of IP over InfiniBand
constexpr std::int64_t port_counter_unit = 4;  // bytes; so the InfiniBand specification counts a port's data

/// DEVICE/PORT → bytes of each port with counters.
std::map<std::string, NetworkBytes> read_ports(const std::filesystem::path& infiniband) {
  std::map<std::string, NetworkBytes> ports;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(infiniband, error)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", error)) {
      const std::filesystem::path counters = port.path() / "counters";
      if (!std::filesystem::exists(counters / "port_xmit_data", error)) continue;
      const std::string name = device.path().filename().string() + '/' + port.path().filename().string();
      ports[name] = {port_counter_unit * read_number<std::int64_t>(counters / "port_rcv_data"),
                     port_counter_unit * read_number<std::int64_t>(counters / "port_xmit_data")};
    }
  }
  return ports;
}

}  // namespace

Result<std::map<std::string, NetworkBytes>> parse_network_counters(std::string_view text) {
  std::map<std::string, NetworkBytes> interfaces;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (number <= 2) continue;  // header lines
    std::string name;
    NetworkBytes bytes;
    if (!parse_line(line, name, bytes)) {
      return Error{fmt::format("network counters: line {} is \"{}\", expected \"name: 16 numbers\"", number, line)};
    }
    interfaces[name] = bytes;
  }
  return interfaces;
}

bool is_virtual_interface(const std::filesystem::path& interface) {
  if (std::filesystem::exists(interface / "device")) return false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(interface, error)) {
    if (entry.path().filename().string().starts_with("lower_")) return false;  // a VLAN of a physical interface
  }
  return true;
}

std::map<std::string, NetworkBytes> read_network_counters(const NetworkFiles& files) {
  std::ostringstream text;
  text << std::ifstream(files.counters).rdbuf();
  auto found = parse_network_counters(text.str());
  if (!found) return {};
  const std::map<std::string, NetworkBytes> ports = read_ports(files.infiniband);
  std::erase_if(*found, [&](const auto& entry) {
    const std::filesystem::path interface = files.interfaces / entry.first;
    return std::filesystem::exists(interface / "bridge") || std::filesystem::exists(interface / "bonding") ||
           (!ports.empty() && read_number<int>(interface / "type") == infiniband_type);
  });
  found->insert(ports.begin(), ports.end());
  return std::move(found).value();
}

NetworkCounters::NetworkCounters(bool reports, NetworkFiles files)
    : reports_(reports), files_(std::move(files)), last_(read()) {}

NetworkBytes NetworkCounters::lap() {
  const auto now = read();
  NetworkBytes outside, loopback;
  for (const auto& [name, bytes] : now) {
    const auto before = last_.find(name);
    if (before == last_.end() || bytes.rx < before->second.rx || bytes.tx < before->second.tx) continue;
    const NetworkBytes passed{bytes.rx - before->second.rx, bytes.tx - before->second.tx};
    NetworkBytes& sum = name == "lo" ? loopback : outside;
    sum.rx += passed.rx;
    sum.tx += passed.tx;
    if (name != "lo") carried_[name] += passed.rx + passed.tx;
  }
  last_ = now;
  follow_busiest();
  return outside == NetworkBytes{} ? loopback : outside;
}

/// Reads the speed only when the busiest interface changes, because drivers answer slowly.
void NetworkCounters::follow_busiest() {
  const auto max = std::max_element(carried_.begin(), carried_.end(),
                                    [](const auto& a, const auto& b) { return a.second < b.second; });
  if (max == carried_.end() || max->second == 0 || max->first == busiest_) return;
  busiest_ = max->first;
  link_bytes_per_second_ = speed_of(busiest_);
}

std::int64_t NetworkCounters::speed_of(const std::string& name) const {
  if (const auto slash = name.find('/'); slash != std::string::npos) {  // a port; its rate is "100 Gb/sec (4X EDR)"
    const std::filesystem::path port = files_.infiniband / name.substr(0, slash) / "ports" / name.substr(slash + 1);
    return static_cast<std::int64_t>(read_number<double>(port / "rate") * 125e6);
  }
  const std::filesystem::path interface = files_.interfaces / name;
  if (is_virtual_interface(interface)) return 0;
  const bool bonded = std::filesystem::exists(interface / "master" / "bonding");
  const auto megabits = read_number<std::int64_t>((bonded ? interface / "master" : interface) / "speed");
  return megabits > 0 ? megabits * 125000 : 0;  // -1: the driver does not know
}

std::map<std::string, NetworkBytes> NetworkCounters::read() const {
  return reports_ ? read_network_counters(files_) : std::map<std::string, NetworkBytes>();
}

}  // namespace babelring
