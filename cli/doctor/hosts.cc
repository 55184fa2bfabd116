#include "cli/doctor/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string_view>

#include "base/digest.h"
#include "base/log.h"
#include "base/shell.h"
#include "base/version.h"
#include "cli/doctor/network.h"
#include "nmt/comm/host_name.h"
#include "nmt/ops/cpu_kernels.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string program_at(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return "";
  return fmt::format("{} build {}", version, sha256_file(file).substr(0, 12));
}

std::string processor_model(const KernelFiles& files) {
  std::ifstream stream(files.proc / "cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string member_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

/// A bridge such as docker0 has the same address on each host; Open MPI is told to leave it out.
std::vector<std::string> outward_addresses(const KernelFiles& files) {
  const std::vector<std::string> bridges = local_bridges(files.sys);
  std::vector<std::string> outward;
  for (const auto& [name, addresses] : interface_addresses()) {
    if (name == "lo" || std::ranges::find(bridges, name) != bridges.end()) continue;
    outward.insert(outward.end(), addresses.begin(), addresses.end());
  }
  return outward;
}

/// Finds the report in the output of a remote shell. The Error is the last line of the output.
Result<HostReport> report_in(const std::string& output) {
  std::istringstream lines(output);
  std::string last = "no output";
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    const Result<json::value> value = line[0] == '{' ? parse_json(line) : Result<json::value>(Error{"no object"});
    if (!value.ok() || !value->is_object() || !value->get_object().contains("kernels")) continue;
    const json::object& object = value->get_object();
    const json::value* libraries = object.if_contains("libraries");
    HostReport report{.nmt = member_of(object, "nmt"),
                      .worker = member_of(object, "worker"),
                      .kernels = member_of(object, "kernels"),
                      .processor = member_of(object, "processor"),
                      .identity = member_of(object, "identity"),
                      .addresses = {},
                      .libraries = libraries != nullptr ? library_versions_from_json(*libraries) : LibraryVersions(),
                      .exchange = member_of(object, "exchange")};
    std::istringstream words(member_of(object, "addresses"));
    for (std::string address; words >> address;) report.addresses.push_back(address);
    return report;
  }
  return Error{printable(last)};
}

void compare(Diagnoses& findings, const std::string& host, const char* what, const std::string& own,
             const std::string& theirs, const char* advice) {
  if (own == theirs) return;
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  findings.push_back({.area = "hosts",
                      .severity = Severity::fail,
                      .text = fmt::format("{}: {} {}, here {}", host, what, shown(theirs), shown(own)),
                      .advice = advice});
}

}  // namespace

HostReport report_host(const KernelFiles& files) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  return {.nmt = program_at(program),
          .worker = program_at(program.parent_path() / "worker"),
          .kernels = cpu_instruction_sets(),
          .processor = processor_model(files),
          .identity = host_identity(),
          .addresses = outward_addresses(files),
          .libraries = own_libraries(),
          .exchange = {}};
}

json::object json_of(const HostReport& report) {
  return {{"nmt", report.nmt},
          {"worker", report.worker},
          {"kernels", report.kernels},
          {"processor", report.processor},
          {"identity", report.identity},
          {"addresses", fmt::format("{}", fmt::join(report.addresses, " "))},
          {"libraries", to_json(report.libraries)},
          {"exchange", report.exchange}};
}

Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host, const std::string& source) {
  std::string command = "timeout 60";
  std::istringstream words(remote_shell);
  for (std::string word; words >> word;) command += " " + shell_quoted(word);
  const Result<Listener> listener = source.empty() ? Result<Listener>(Error{""}) : listen_at(source);
  const std::string exchange = listener ? fmt::format("--exchange {},{} ", source, listener->port) : "";
  command += fmt::format(" {} {} doctor --this-host {}2>&1 </dev/null", shell_quoted(host),
                         shell_quoted(fs::read_symlink("/proc/self/exe").string()), exchange);
  std::future<Status> exchanged;
  if (listener) exchanged = std::async(std::launch::async, [&] { return exchange_as_listener(*listener); });
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  if (pipe == nullptr) return Error{"cannot start a process"};
  std::string output;
  std::array<char, 4096> piece{};
  while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe.get())) {
    output.append(piece.data(), bytes);
    if (output.size() > (1 << 20)) break;
  }
  Result<HostReport> report = report_in(output);
  if (!listener) return report;
  if (!report) ::shutdown(listener->socket.get(), SHUT_RDWR);  // nobody will come
  const Status heard = exchanged.get();
  if (report && !heard && report->exchange.empty()) report->exchange = heard.error();
  return report;
}

Diagnoses host_findings(const HostReport& own, const std::vector<std::pair<std::string, Result<HostReport>>>& others) {
  Diagnoses findings;
  for (const auto& [host, theirs] : others) {
    if (!theirs.ok()) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{} could not be compared: {}", host, theirs.error()),
                          .advice =
                              "mpirun starts ranks there in the same way (Slurm does not): install the programs under "
                              "the same path on all hosts, or set another shell with --remote-shell"});
      continue;
    }
    const std::size_t before = findings.size();
    compare(findings, host, "nmt", own.nmt, theirs->nmt, "install one build on all hosts");
    compare(findings, host, "worker", own.worker, theirs->worker,
            "install one build on all hosts: ranks with different builds are refused");
    compare(
        findings, host, "kernels", own.kernels, theirs->kernels,
        "ranks with different instruction sets are refused: limit them with BABELRING_CPU_ISA and DNNL_MAX_CPU_ISA");
    compare(findings, host, "Open MPI", own.libraries.open_mpi, theirs->libraries.open_mpi,
            "install one version on all hosts: ranks with different versions are refused");
    compare(findings, host, "oneDNN", own.libraries.onednn, theirs->libraries.onednn,
            "install one version on all hosts: ranks with different versions are refused, unless "
            "communication.mixed_onednn=true allows them");
    if (own.processor != theirs->processor) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{}: processor {}, here {}", host, theirs->processor, own.processor),
                          .advice = "the slower host limits the speed of all"});
    }
    for (const std::string& address : own.addresses) {
      if (own.identity == theirs->identity) break;  // the same host by another name
      if (std::ranges::find(theirs->addresses, address) == theirs->addresses.end()) continue;
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{}: it has the address {} too", host, address),
                          .advice =
                              "Open MPI may connect to it and wait for itself: name the network that joins the hosts, "
                              "as the advice on the interface shows"});
    }
    if (!theirs->exchange.empty()) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::fail,
                          .text = fmt::format("{}: 64 KiB could not be exchanged: {}", host, theirs->exchange),
                          .advice = "let the hosts' TCP ports through in both directions (a firewall), and give all "
                                    "interfaces of the network the same MTU"});
    }
    if (findings.size() == before) {
      findings.push_back(
          {.area = "hosts", .text = fmt::format("{}: same programs, kernels and processor", host), .advice = {}});
    }
  }
  return findings;
}

}  // namespace babelring
