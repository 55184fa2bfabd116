#include "cli/emulate/setup_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/result.h"
#include "base/text.h"

namespace babelring {
namespace {

using LinkUnit = std::pair<std::string_view, double>;
constexpr std::array<LinkUnit, 4> rate_units = {{{"gbit", 1}, {"mbit", 1e-3}, {"GB/s", 8}, {"MB/s", 8e-3}}};  // Gbit/s
constexpr std::array<LinkUnit, 2> latency_units = {{{"us", 1}, {"ms", 1e3}}};
constexpr std::array<LinkUnit, 1> busy_units = {{{"ms/GB", 1}}};

/// The text before the unit, and the unit's factor.
template <std::size_t count>
std::optional<std::pair<std::string_view, double>> without_unit(std::string_view text,
                                                                const std::array<LinkUnit, count>& units) {
  for (const auto& [name, factor] : units) {
    if (text.ends_with(name)) return {{text.substr(0, text.size() - name.size()), factor}};
  }
  return std::nullopt;
}

template <std::size_t count>
std::optional<double> quantity(std::string_view text, const std::array<LinkUnit, count>& units) {
  const auto split = without_unit(text, units);
  const auto number = split ? parse_decimal<double>(split->first) : std::nullopt;
  if (!number || *number < 0) return std::nullopt;
  return *number * split->second;
}

bool parse_rate(std::string_view text, insight::Link& link) {
  if (text == "inf") {
    link.gbit_per_s = std::numeric_limits<double>::infinity();
    return true;
  }
  const auto split = without_unit(text, rate_units);
  if (!split) return false;
  const std::size_t dash = split->first.find('-');
  const auto low = parse_decimal<double>(split->first.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : parse_decimal<double>(split->first.substr(dash + 1));
  if (!low || !high || !(*low > 0) || *high < *low) return false;
  link.gbit_per_s = (*low + *high) / 2 * split->second;
  link.rate_error = (*high - *low) / (*high + *low);
  return true;
}

}  // namespace

Result<insight::Link> parse_link(std::string_view text) {
  const Error wrong{
      fmt::format("found '{}', expected a rate above 0 and a latency, such as 25gbit,20us or 218-231MB/s,50us,300ms/GB",
                  printable(std::string(text)))};
  std::vector<std::string_view> parts;
  for (std::string_view left = text;; left.remove_prefix(left.find(',') + 1)) {
    parts.push_back(left.substr(0, left.find(',')));
    if (left.find(',') == std::string_view::npos) break;
  }
  insight::Link link;
  if (parts.size() > 3 || !parse_rate(parts[0], link)) return wrong;
  if (parts.size() > 1) {
    const auto latency = quantity(parts[1], latency_units);
    if (!latency) return wrong;
    link.latency_us = *latency;
  }
  if (parts.size() > 2) {
    const auto busy = quantity(parts[2], busy_units);
    if (!busy) return wrong;
    link.busy_ms_per_gb = *busy;
  }
  return link;
}

namespace {

insight::Link required_link(const std::string& text, const char* option, const char* where) {
  if (text.empty()) {
    throw UsageFailure(fmt::format("{}: expected the link between {}, such as 25gbit,20us, or inf", option, where));
  }
  Result<insight::Link> link = parse_link(text);
  if (!link) throw UsageFailure(fmt::format("{}: {}", option, link.error()));
  return *link;
}

}  // namespace

void SetupOptions::declare(CLI::App& command) {
  command.add_option("--record", record_file, "times of one rank, from `nmt emulate record`")
      ->required()
      ->check(existing_file);
  command.add_option("--inside", inside, "link between ranks of one host: RATE,LATENCY such as 100gbit,5us, or inf")
      ->type_name("LINK");
  command
      .add_option("--between", between,
                  "link between hosts: RATE,LATENCY[,BUSY] such as 25gbit,20us or 218-231MB/s,50us,300ms/GB; BUSY is "
                  "the processor time of sending a gigabyte")
      ->type_name("LINK");
  add_choice(command, "--algorithm", setup.topology.algorithm, insight::algorithm_choices(),
             "how gradients are summed; the worker does not offer tree");
  add_choice(command, "--wire", setup.topology.wire, wire_choices(), "type of gradients in messages");
  add_choice(command, "--optimizer", setup.topology.optimizer, insight::optimizer_choices(),
             "who keeps the optimizer's state; sharded: each host a shard, whose weights it sends to the others");
  add_choice(command, "--weights", setup.topology.bf16_weights, {{"bf16", true}, {"f32", false}},
             "type of the weights that a sharded optimizer sends");
  command.add_option("--bucket-mb", setup.bucket_mb, "MB of a bucket of f32 gradients; default: as recorded")
      ->check(CLI::Range(0.01, 1e4));
  command.add_option("--accumulate", setup.accumulate, "micro-batches of the recorded size in each update")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command.add_option("--straggler", setup.straggler, "per cent by which one rank computes slower")
      ->check(CLI::Range(0.0, 10000.0))
      ->capture_default_str();
  command.add_option("--loader-threads", setup.loader.threads, "threads that make batches")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--prefetch", setup.loader.prefetch, "batches that are made ahead")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--updates", setup.updates, "updates to simulate")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10000000}))
      ->capture_default_str();
  command.add_option("--seed", seed, "draws the recorded variation of times")->capture_default_str();
}

insight::RankRecord read_rank_record(const std::string& file) {
  const Result<json::value> value = parse_json(read_file(file));
  if (!value) throw UsageFailure(fmt::format("{}: {}", file, value.error()));
  Result<insight::RankRecord> record = insight::rank_record_from_json(*value);
  if (!record) throw UsageFailure(fmt::format("{}: {}", file, record.error()));
  return std::move(record).value();
}

insight::RankRecord SetupOptions::read_record() const {
  return read_rank_record(record_file);
}

insight::RunSetup SetupOptions::with_links(int hosts, int ranks_per_host) const {
  constexpr std::int64_t max_ranks = 1'000'000;  // each is simulated
  const std::int64_t ranks = std::int64_t{hosts} * ranks_per_host;
  if (ranks > max_ranks) {
    throw UsageFailure(fmt::format("--hosts, --ranks-per-host: found {}, expected at most {}",
                                   counted(static_cast<double>(ranks), "rank"),
                                   grouped(static_cast<double>(max_ranks))));
  }
  insight::RunSetup made = setup;
  made.topology.hosts = hosts;
  made.topology.ranks_per_host = ranks_per_host;
  if (ranks_per_host > 1) made.topology.inside = required_link(inside, "--inside", "the ranks of a host");
  if (hosts > 1) made.topology.between = required_link(between, "--between", "hosts");
  return made;
}

std::vector<int> parse_counts(const std::string& list, const char* option, int max) {
  std::vector<int> counts;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    const auto count = parse_decimal<int>(item);
    if (!count || *count < 1 || *count > max) {
      throw UsageFailure(
          fmt::format("{}: found '{}', expected numbers from 1 to {}, such as 1,2,4", option, printable(item), max));
    }
    counts.push_back(*count);
  }
  if (counts.empty()) throw UsageFailure(fmt::format("{}: found none, expected numbers such as 1,2,4", option));
  return counts;
}

}  // namespace babelring
