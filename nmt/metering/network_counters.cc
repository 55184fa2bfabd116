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

std::map<std::string, NetworkBytes> read_network_counters(const std::filesystem::path& counters,
                                                          const std::filesystem::path& interfaces) {
  std::ostringstream text;
  text << std::ifstream(counters).rdbuf();
  auto found = parse_network_counters(text.str());
  if (!found) return {};
  std::erase_if(*found, [&](const auto& entry) {
    return std::filesystem::exists(interfaces / entry.first / "bridge") ||
           std::filesystem::exists(interfaces / entry.first / "bonding");
  });
  return std::move(found).value();
}

NetworkCounters::NetworkCounters(bool reports, std::filesystem::path counters, std::filesystem::path interfaces)
    : reports_(reports), counters_(std::move(counters)), interfaces_(std::move(interfaces)), last_(read()) {}

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

/// True for one end of a veth pair, as in containers. Its reported speed is nominal and says nothing about the
/// physical link.
bool NetworkCounters::is_pair_end(const std::string& name) const {
  std::int64_t own = 0, other = 0;
  std::ifstream(interfaces_ / name / "ifindex") >> own;
  std::ifstream(interfaces_ / name / "iflink") >> other;
  if (own == other || std::filesystem::exists(interfaces_ / name / "device")) return false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(interfaces_ / name, error)) {
    if (entry.path().filename().string().starts_with("lower_")) return false;  // a VLAN of a physical interface
  }
  return true;
}

std::int64_t NetworkCounters::speed_of(const std::string& name) const {
  if (is_pair_end(name)) return 0;
  const std::filesystem::path master = interfaces_ / name / "master";
  const bool bonded = std::filesystem::exists(master / "bonding");
  std::int64_t megabits = 0;
  std::ifstream((bonded ? master : interfaces_ / name) / "speed") >> megabits;
  return megabits > 0 ? megabits * 125000 : 0;  // -1: the driver does not know
}

std::map<std::string, NetworkBytes> NetworkCounters::read() const {
  return reports_ ? read_network_counters(counters_, interfaces_) : std::map<std::string, NetworkBytes>();
}

}  // namespace babelring
