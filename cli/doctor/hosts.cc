#include "cli/doctor/hosts.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

#include "base/digest.h"
#include "base/log.h"
#include "base/shell.h"
#include "base/version.h"
#include "nmt/ops/cpu_kernels.h"

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
    return HostReport{member_of(object, "nmt"), member_of(object, "worker"), member_of(object, "kernels"),
                      member_of(object, "processor")};
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
          .kernels = cpu_kernels(),
          .processor = processor_model(files)};
}

json::object json_of(const HostReport& report) {
  return {{"nmt", report.nmt}, {"worker", report.worker}, {"kernels", report.kernels}, {"processor", report.processor}};
}

Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host) {
  std::string command = "timeout 60";
  std::istringstream words(remote_shell);
  for (std::string word; words >> word;) command += " " + shell_quoted(word);
  command += fmt::format(" {} {} doctor --this-host 2>&1 </dev/null", shell_quoted(host),
                         shell_quoted(fs::read_symlink("/proc/self/exe").string()));
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  if (pipe == nullptr) return Error{"cannot start a process"};
  std::string output;
  std::array<char, 4096> piece{};
  while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe.get())) {
    output.append(piece.data(), bytes);
    if (output.size() > (1 << 20)) break;
  }
  return report_in(output);
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
    if (own.processor != theirs->processor) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{}: processor {}, here {}", host, theirs->processor, own.processor),
                          .advice = "the slower host limits the speed of all"});
    }
    if (findings.size() == before) {
      findings.push_back(
          {.area = "hosts", .text = fmt::format("{}: same programs, kernels and processor", host), .advice = {}});
    }
  }
  return findings;
}

}  // namespace babelring
