#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/failure.h"
#include "base/result.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/hosts.h"
#include "cli/doctor/network.h"
#include "nmt/comm/mpi/probe.h"
#include "nmt/core/machine.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

struct DoctorArguments {
  std::vector<std::string> hosts;
  std::vector<std::string> exchange;  // address and port
  std::string folder = "runs";
  std::string data;
  std::string server;
  std::string token_file, ca_file;
  std::string remote_shell = "ssh -o BatchMode=yes -o ConnectTimeout=10";
  bool as_json = false, this_host = false;
};

Diagnosis mpi_finding() {
  const MpiReport report = probe_mpi(std::chrono::seconds(60));
  Diagnosis finding{.area = "mpi", .text = fmt::format("{}, thread-safe calls (MPI_THREAD_MULTIPLE)", report.library)};
  if (!report.thread_safe) {
    finding.severity = Severity::fail;
    finding.text = fmt::format("{}: {}", report.library, report.thread_safe.error());
    finding.advice = "needed for more than one rank; scripts/setup.sh installs Open MPI";
  }
  return finding;
}

void append(Diagnoses& findings, Diagnoses more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

Diagnoses examine(const DoctorArguments& arguments) {
  // First, because it forks and so must run before threads start.
  Diagnoses mpi{mpi_finding()};
  const KernelFiles files;
  const int processors = static_cast<int>(own_processors().allowed.size());
  Diagnoses findings = machine_findings(files, make_cpu_backend(1)->description(), processors);
  findings.push_back(libraries_finding(own_libraries()));
  append(findings, std::move(mpi));
  const char* chosen = std::getenv("NCCL_SOCKET_IFNAME");
  append(findings, network_findings(read_interfaces(files, interface_addresses()), arguments.hosts, route_to,
                                    chosen != nullptr ? std::optional<std::string>(chosen) : std::nullopt));
  append(findings, infiniband_findings(files));
  std::vector<std::pair<std::string, Result<HostReport>>> reports;
  for (const std::string& host : arguments.hosts) {
    const Result<HostRoute> route = route_to(host);
    reports.emplace_back(host, ask_host(arguments.remote_shell, host, route ? route->source : ""));
  }
  append(findings, host_findings(report_host(files), reports));
  append(findings, gpu_findings(report_gpus(files)));
  append(findings, storage_findings(arguments.folder));
  if (!arguments.data.empty()) append(findings, data_findings(arguments.data));
  if (!arguments.server.empty()) {
    append(findings, server_findings(find_server(arguments.server, arguments.token_file, arguments.ca_file)));
  }
  return findings;
}

void run_doctor(const DoctorArguments& arguments) {
  if (arguments.this_host) {
    HostReport report = report_host(KernelFiles());
    if (arguments.exchange.size() == 2) {
      if (const Status done = exchange_as_caller(arguments.exchange[0], arguments.exchange[1]); !done) {
        report.exchange = done.error();
      }
    }
    fmt::print("{}\n", to_text(json_of(report)));
    return;
  }
  const Diagnoses findings = examine(arguments);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(json_of(findings)));
  } else {
    fmt::print("{}", text_of(findings));
  }
  const auto failed = std::count_if(findings.begin(), findings.end(),
                                    [](const Diagnosis& finding) { return finding.severity == Severity::fail; });
  if (failed > 0) fail("doctor: {} of {} checks failed", failed, findings.size());
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Checks this machine before a run and gives advice");
  const auto arguments = std::make_shared<DoctorArguments>();
  command
      ->add_option("--hosts", arguments->hosts,
                   "other hosts of the run, a,b: finds the interface to them, exchanges 64 KiB with each, and compares "
                   "their programs, kernels and addresses")
      ->delimiter(',');
  command
      ->add_option("--remote-shell", arguments->remote_shell,
                   "command that runs a program on these hosts: REMOTE-SHELL HOST PROGRAM …")
      ->capture_default_str();
  command->add_flag("--this-host", arguments->this_host,
                    "print the properties that --hosts compares as one JSON object and exit");
  command
      ->add_option("--exchange", arguments->exchange,
                   "with --this-host: exchange 64 KiB with the host that asks, at ADDRESS,PORT")
      ->delimiter(',')
      ->expected(2);
  command->add_option("--runs", arguments->folder, "folder to store runs in")->capture_default_str();
  command->add_option("--data", arguments->data,
                      "folder of training data: reads its files and compares them with the digests of its manifest");
  command->add_option("--server", arguments->server, "address of a server to check, http://host:port");
  command->add_option("--token-file", arguments->token_file, "file with the server token; default: BABELRING_TOKEN");
  command->add_option("--ca-file", arguments->ca_file,
                      "trusted certificates for https (PEM); default: BABELRING_CA_FILE");
  command->add_flag("--json", arguments->as_json, "print one JSON object");
  command->callback([arguments] { run_doctor(*arguments); });
}

}  // namespace babelring
