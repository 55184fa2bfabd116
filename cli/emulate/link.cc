#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "cli/emulate/emulate.h"
#include "insight/report/report_text.h"
#include "nmt/comm/mpi/session.h"
#include "lab/record/measure_link.h"

namespace babelring {
namespace {

struct LinkArguments {
  std::string hosts;
  double megabytes = 64;
  int repeats = 7;
  std::string wire = "f32";
  bool as_json = false;
};

/// Replaces this program by mpirun, which starts it on both ends of the link. Returns only by an exception.
[[noreturn]] void start_both_ends(const LinkArguments& arguments) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {"mpirun", "-np", "2", "--bind-to", "none"};
  if (arguments.hosts.empty()) {
    words.emplace_back("--oversubscribe");
  } else {
    if (std::ranges::count(arguments.hosts, ',') != 1) {
      throw UsageFailure(fmt::format("--hosts: found '{}', expected two, such as hostA,hostB", arguments.hosts));
    }
    words.insert(words.end(), {"--map-by", "node", "--host", arguments.hosts});
  }
  words.insert(words.end(), {program, "emulate", "link", "--megabytes", fmt::format("{}", arguments.megabytes),
                             "--repeats", std::to_string(arguments.repeats), "--wire", arguments.wire});
  if (arguments.as_json) words.emplace_back("--json");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  fail("mpirun: cannot be started: {}", std::strerror(errno));
}

void print_link(const LinkArguments& arguments, const std::vector<std::string>& hosts, const MeasuredLink& measured) {
  const insight::Link& link = measured.link;
  const std::string text =
      fmt::format("{:.3g}-{:.3g}gbit,{:.3g}us,{:.3g}ms/GB", link.gbit_per_s * (1 - link.rate_error),
                  link.gbit_per_s * (1 + link.rate_error), link.latency_us, link.busy_ms_per_gb);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(json::object{{"hosts", json::array(hosts.begin(), hosts.end())},
                                            {"link", text},
                                            {"gbit_per_s", link.gbit_per_s},
                                            {"rate_error", link.rate_error},
                                            {"latency_us", link.latency_us},
                                            {"busy_ms_per_gb", link.busy_ms_per_gb},
                                            {"small_ms", measured.small_ms},
                                            {"large_ms", measured.large_ms},
                                            {"large_mb", measured.large_mb}}));
    return;
  }
  fmt::print("{} and {}: {:.3g} Gbit/s ± {} each way, {:.3g} us a message, {:.3g} ms of processor time for a GB\n",
             hosts[0], hosts[1], link.gbit_per_s, insight::percent_words(link.rate_error), link.latency_us,
             link.busy_ms_per_gb);
  fmt::print("{} {}\n", hosts[0] == hosts[1] ? "--inside" : "--between", text);
}

void show_link(const LinkArguments& arguments) {
  if (!MpiSession::under_mpirun()) start_both_ends(arguments);
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  {
    const GradientWire wire = arguments.wire == "bf16" ? GradientWire::bf16 : GradientWire::f32;
    const auto communicator = make_mpi_communicator({.algorithm = AllReduceAlgorithm::ring, .wire = wire});
    const MeasuredLink measured = measure_link(*communicator, arguments.megabytes, arguments.repeats, wire);
    if (communicator->rank() == 0) print_link(arguments, communicator->hosts(), measured);
  }
  session.finalize(MpiSession::default_deadline, 0);
}

}  // namespace

void add_emulate_link(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand(
      "link", "Measures a link by all-reduces of two ranks: rate, latency, and the processor time of sending");
  const auto arguments = std::make_shared<LinkArguments>();
  LinkArguments& a = *arguments;
  command->add_option("--hosts", a.hosts, "the link's two hosts, A,B; default: two ranks on this host");
  command->add_option("--megabytes", a.megabytes, "MB of the large all-reduces")
      ->check(CLI::Range(0.1, 4000.0))
      ->capture_default_str();
  command->add_option("--repeats", a.repeats, "number of large all-reduces")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--wire", a.wire,
                   "type in which gradients are sent, f32 or bf16; converting to bf16 takes processor time")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->add_flag("--json", a.as_json, "print JSON");
  command->callback([arguments] { show_link(*arguments); });
}

}  // namespace babelring
