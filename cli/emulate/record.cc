#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/emulate/emulate.h"
#include "insight/report/report_text.h"
#include "insight/tables/gpu_profiles.h"
#include "lab/record/measure_link.h"
#include "lab/record/record_run.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/core/machine.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/device.h"

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

namespace {

struct RecordArguments {
  std::string output, config, sizes = "0.5,1,2", table, gpu, model, compute_ms, unit = "target tokens";
  std::vector<std::string> overrides;
  std::int64_t updates = 20;
  int neighbours = 0;
  double batch = 0, size = 0, bucket_mb = 25;
  std::int64_t parameters = 0;
};

/// A record of one row of models in a table.
insight::RankRecord from_table(const RecordArguments& arguments) {
  if (arguments.gpu.empty() || arguments.model.empty()) {
    throw UsageFailure("--from-table: expected --gpu and --model, which row to take");
  }
  std::size_t skipped = 0;
  const auto profiles = insight::gpu_profiles(CsvTable::read(arguments.table), &skipped);
  if (skipped > 0) print_error(fmt::format("warning: {} rows have no compute time and are left out\n", skipped));
  const insight::GpuProfile& profile = insight::find_profile(profiles, arguments.gpu, arguments.model);
  const std::int64_t parameters =
      arguments.parameters > 0 ? arguments.parameters : insight::image_model_parameters(arguments.model);
  return insight::record_of(profile, arguments.batch, parameters, arguments.bucket_mb);
}

/// As of a recorded rank, whose updates count as disturbed when they vary by more (lab/record/rank_recorder.cc).
constexpr double wide_range = 0.15;

/// A record of a published system of which only the compute time is known, within a range.
insight::RankRecord from_compute_time(const RecordArguments& arguments) {
  const std::size_t dash = arguments.compute_ms.find('-');
  const auto low = parse_decimal<double>(std::string_view(arguments.compute_ms).substr(0, dash));
  const auto high =
      dash == std::string::npos ? low : parse_decimal<double>(std::string_view(arguments.compute_ms).substr(dash + 1));
  if (!low || !high || !(*low > 0) || !(*high >= *low)) {
    throw UsageFailure(fmt::format("--compute-ms: found '{}', expected LOW-HIGH in ms, such as 70-200",
                                   printable(arguments.compute_ms)));
  }
  if (arguments.size <= 0) throw UsageFailure("--compute-ms: expected --size, what one rank computes in that time");
  const double middle = (*low + *high) / 2;
  insight::RankRecord record;
  record.model = arguments.model.empty() ? "model" : arguments.model;
  record.machine = arguments.gpu.empty() ? "unknown machine" : arguments.gpu;
  record.unit = arguments.unit;
  record.size = arguments.size;
  record.parameters = arguments.parameters;
  record.times = {{"forward", arguments.size, middle / 3}, {"backward", arguments.size, middle * 2 / 3}};
  if (arguments.parameters > 0) record.buckets = insight::even_buckets(arguments.parameters, arguments.bucket_mb);
  record.compute_error = (*high - *low) / (*high + *low);
  record.quality = record.compute_error > wide_range ? fmt::format("the published time is known within {} only",
                                                                   insight::percent_words(record.compute_error))
                                                     : "good";
  return record;
}

std::vector<double> parse_sizes(const std::string& list) {
  std::vector<double> sizes;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    const auto size = parse_decimal<double>(item);
    if (!size || !(*size > 0) || *size > 1000) {
      throw UsageFailure(
          fmt::format("--sizes: found '{}', expected factors above 0, such as 0.5,1,2", printable(item)));
    }
    sizes.push_back(*size);
  }
  return sizes;
}

/// A record of this machine: trains a few updates of the configuration.
insight::RankRecord from_run(const RecordArguments& arguments) {
  RecordPlan plan{.config = read_config(read_file(arguments.config), arguments.config, arguments.overrides),
                  .sizes = parse_sizes(arguments.sizes),
                  .updates = arguments.updates,
                  .neighbours = arguments.neighbours};
  const TrainingConfig& training = plan.config.training;
  const int shared_threads = std::max(1, own_processors().count() / (1 + plan.neighbours));
  plan.threads = training.threads > 0 ? training.threads : shared_threads;
  const auto backend = choose_backend(training.device, plan.threads, *make_single_communicator()).backend;
  if (training.precision == DType::bf16) require_matmul(*backend, DType::bf16, "training.precision=f32");
  if (plan.neighbours > 0 && !backend->host_memory()) {
    throw UsageFailure(fmt::format("--neighbours: found {} on a GPU, expected ranks on the CPU", plan.neighbours));
  }
  return record_rank(plan, *backend);
}

insight::RankRecord make_record(const RecordArguments& arguments) {
  const int sources = !arguments.config.empty() + !arguments.table.empty() + !arguments.compute_ms.empty();
  if (sources != 1) {
    throw UsageFailure(fmt::format("expected one of --config, --from-table and --compute-ms, found {}", sources));
  }
  if (!arguments.config.empty()) return from_run(arguments);
  return arguments.table.empty() ? from_compute_time(arguments) : from_table(arguments);
}

void write_record(const RecordArguments& arguments) {
  const insight::RankRecord made = make_record(arguments);
  write_file_atomically(arguments.output, to_text(insight::to_json(made)) + "\n");
  fmt::print("{}: {} on {}, {} {} a rank, {:.1f} MB of gradients", arguments.output, made.model, made.machine,
             made.size, made.unit, made.gradient_megabytes());
  if (made.compute_error > 0) fmt::print("; compute ± {}", insight::percent_words(made.compute_error));
  fmt::print("; quality: {}\n", made.quality);
}

}  // namespace

void add_emulate_record(CLI::App& emulate) {
  CLI::App* command = emulate.add_subcommand("record", "Writes the times of one rank, from which runs are predicted");
  const auto arguments = std::make_shared<RecordArguments>();
  RecordArguments& a = *arguments;
  command->add_option("--output", a.output, "record to write")->required()->type_name("FILE");
  command->add_option("--config", a.config, "configuration whose updates are timed on this machine")
      ->check(existing_file)
      ->type_name("FILE");
  command->add_option("overrides", a.overrides, "with --config: key=value, changes of the configuration");
  command->add_option("--sizes", a.sizes, "with --config: factors on the size of an update, 1 among them")
      ->capture_default_str();
  command->add_option("--updates", a.updates, "with --config: updates of each size")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}))
      ->capture_default_str();
  command
      ->add_option("--neighbours", a.neighbours,
                   "with --config: ranks that train beside the recorded one on this machine's processors")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--from-table", a.table, "CSV with the columns gpu, model, batch, transfer_ms and compute_ms")
      ->check(existing_file)
      ->type_name("FILE");
  command->add_option("--compute-ms", a.compute_ms, "time of forward and backward of a published system, or its range")
      ->type_name("LOW-HIGH");
  command->add_option("--gpu", a.gpu, "GPU in the table, or of the published system");
  command->add_option("--model", a.model, "model in the table, or of the published system");
  command->add_option("--batch", a.batch, "images of one rank in each update; default: the table's largest batch")
      ->check(positive_number);
  command->add_option("--size", a.size, "with --compute-ms: what one rank computes, in --unit")->check(positive_number);
  command->add_option("--unit", a.unit, "with --compute-ms: unit of --size")->capture_default_str();
  command
      ->add_option("--parameters", a.parameters,
                   "parameters of the model, whose gradients are summed; default: known for some image models")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000'000'000}));
  command->add_option("--bucket-mb", a.bucket_mb, "MB of a bucket of f32 gradients")
      ->check(CLI::Range(0.01, 1e4))
      ->capture_default_str();
  command->callback([arguments] { write_record(*arguments); });
}

}  // namespace babelring
