#include "cli/doctor/doctor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/failure.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/gpu.h"
#include "cli/doctor/hosts.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/network.h"
#include "cli/doctor/server.h"
#include "cli/doctor/storage.h"
#include "nmt/comm/mpi_probe.h"
#include "nmt/core/processors.h"
#include "nmt/ops/backend.h"

namespace babelring {
namespace {

struct DoctorArguments {
  std::vector<std::string> hosts;
  std::string folder = "runs";
  std::string server;
  std::string token_file, ca_file;
  std::string remote_shell = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  bool as_json = false, this_host = false;
};

Diagnosis mpi_finding() {
  const MpiReport report = probe_mpi(std::chrono::seconds(60));
  Diagnosis finding{.area = "mpi", .text = fmt::format("{}, calls from any thread at once", report.library)};
  if (!report.why.empty()) {
    finding.verdict = Verdict::fail;
    finding.text = fmt::format("{}: {}", report.library, report.why);
    finding.advice = "several ranks need it, one does not; scripts/setup.sh installs Open MPI";
  }
  return finding;
}

void append(Diagnoses& findings, Diagnoses more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

Diagnoses examine(const DoctorArguments& arguments) {
  // First, because it forks, and there should be no threads yet.
  Diagnoses mpi{mpi_finding()};
  const KernelFiles files;
  const int processors = static_cast<int>(own_processors().allowed.size());
  Diagnoses findings = machine_findings(files, make_cpu_backend(1)->description(), processors);
  append(findings, std::move(mpi));
  const char* chosen = std::getenv("NCCL_SOCKET_IFNAME");
  append(findings, network_findings(read_interfaces(files, interface_addresses()), arguments.hosts, route_to,
                                    chosen != nullptr ? std::optional<std::string>(chosen) : std::nullopt));
  append(findings, infiniband_findings(files));
  std::vector<std::pair<std::string, Result<HostReport>>> reports;
  for (const std::string& host : arguments.hosts) reports.emplace_back(host, ask_host(arguments.remote_shell, host));
  append(findings, host_findings(report_host(files), reports));
  append(findings, gpu_findings(report_gpus(files)));
  append(findings, storage_findings(arguments.folder));
  if (!arguments.server.empty()) {
    append(findings, server_findings(find_server(arguments.server, arguments.token_file, arguments.ca_file)));
  }
  return findings;
}

void run_doctor(const DoctorArguments& arguments) {
  if (arguments.this_host) {
    fmt::print("{}\n", to_text(json_of(report_host(KernelFiles()))));
    return;
  }
  const Diagnoses findings = examine(arguments);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(json_of(findings)));
  } else {
    fmt::print("{}", text_of(findings));
  }
  const auto failed = std::count_if(findings.begin(), findings.end(),
                                    [](const Diagnosis& finding) { return finding.verdict == Verdict::fail; });
  if (failed > 0) fail("doctor: {} of {} checks failed", failed, findings.size());
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Looks at this machine before a run, and says what to do");
  const auto arguments = std::make_shared<DoctorArguments>();
  command
      ->add_option(
          "--hosts", arguments->hosts,
          "the run's other hosts, a,b: which interface leads to them, and whether they have the same programs and "
          "kernels")
      ->delimiter(',');
  command
      ->add_option("--remote-shell", arguments->remote_shell,
                   "how to run a program on these hosts: REMOTE-SHELL HOST PROGRAM …")
      ->capture_default_str();
  command->add_flag("--this-host", arguments->this_host, "prints what --hosts compares, as one JSON object, and ends");
  command->add_option("--runs", arguments->folder, "folder that runs are to be kept in")->capture_default_str();
  command->add_option("--server", arguments->server, "address of a server to try, http://host:port");
  command->add_option("--token-file", arguments->token_file, "file with its token; else BABELRING_TOKEN");
  command->add_option("--ca-file", arguments->ca_file, "certificates that https trusts; else BABELRING_CA_FILE");
  command->add_flag("--json", arguments->as_json, "prints one JSON object");
  command->callback([arguments] { run_doctor(*arguments); });
}

}  // namespace babelring
