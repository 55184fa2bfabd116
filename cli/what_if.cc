#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>

#include "base/failure.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/emulate/setup_options.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

struct WhatIfArguments {
  RunChoice chosen;
  std::string link, wire, algorithm, optimizer;  // empty: as the run has it
  std::optional<int> hosts, ranks_per_host, accumulate;
  std::optional<double> bucket_mb, straggler;
};

template <class Value>
void add_parameter(std::string& query, const char* name, const Value& value) {
  query += fmt::format("{}{}={}", query.empty() ? '?' : '&', name, value);
}

template <class Value>
void add_parameter(std::string& query, const char* name, const std::optional<Value>& value) {
  if (value) add_parameter(query, name, *value);
}

/// The setup as a query, which starts with '?', or is empty.
std::string query_of(const WhatIfArguments& arguments) {
  std::string query;
  add_parameter(query, "hosts", arguments.hosts);
  add_parameter(query, "ranks_per_host", arguments.ranks_per_host);
  if (!arguments.link.empty()) {
    const Result<insight::Link> link = parse_link(arguments.link);
    if (!link) throw UsageFailure("--link: " + link.error());
    // An endless rate is the highest that the server takes.
    add_parameter(query, "link_gbit", std::min(link->gbit_per_s, 10'000.0));
    if (arguments.link.find(',') != std::string::npos) add_parameter(query, "latency_us", link->latency_us);
  }
  if (!arguments.wire.empty()) add_parameter(query, "wire", arguments.wire);
  add_parameter(query, "bucket_mb", arguments.bucket_mb);
  add_parameter(query, "accumulate", arguments.accumulate);
  if (!arguments.algorithm.empty()) add_parameter(query, "algorithm", arguments.algorithm);
  if (!arguments.optimizer.empty()) add_parameter(query, "optimizer", arguments.optimizer);
  add_parameter(query, "straggler", arguments.straggler);
  return query;
}

std::string ms_text(const json::object& parts, std::string_view name) {
  return fixed_text(get_number(parts, name), 1);
}

std::string left_text(const json::object& step) {
  const auto seconds = get_number(step, "seconds_left");
  return seconds ? seconds_text(*seconds) : "";
}

std::string setup_text(const json::object& step) {
  const json::object& setup = step.at("setup").as_object();
  const auto link = get_number(setup, "link_gbit");
  const double hosts = get_number(setup, "hosts").value_or(1);
  const double accumulate = get_number(setup, "accumulate").value_or(1),
               slow = get_number(setup, "straggler").value_or(0);
  std::string text = fmt::format("hosts {}, ranks on each {}, {}{}, {}, buckets of {:g} MB", hosts,
                                 get_number(setup, "ranks_per_host").value_or(1), text_of(setup, "algorithm"),
                                 get_flag(setup, "offered") ? "" : " (not offered)", text_of(setup, "wire"),
                                 get_number(setup, "bucket_mb").value_or(0));
  if (hosts > 1) {
    text += link ? fmt::format(", link {:.3g} Gbit/s, {:g} us", *link, get_number(setup, "latency_us").value_or(0))
                 : ", a link of any rate";
  }
  if (hosts > 1 && text_of(setup, "optimizer") == "sharded") text += ", optimizer sharded";
  if (accumulate > 1) text += fmt::format(", {} micro-batches", accumulate);
  if (slow > 0) text += fmt::format(", one rank {:g} % slower", slow);
  return text;
}

/// `predicted` may be null.
void add_rows(const json::object& measured, const json::object& baseline, const json::object* predicted, Table& table) {
  const auto row = [&](const char* name, const auto& text) {
    table.add({{name}, {text(measured)}, {text(baseline)}, {predicted == nullptr ? "" : text(*predicted)}});
  };
  row("update, ms", [](const json::object& step) { return ms_text(step, "step_ms"); });
  for (const auto& [name, key] : {std::pair("  waiting for data", "data_ms"),
                                  {"  forward", "forward_ms"},
                                  {"  backward", "backward_ms"},
                                  {"  exposed communication", "exposed_communication_ms"},
                                  {"  optimizer", "optimizer_ms"},
                                  {"  other", "other_ms"}}) {
    row(name, [key](const json::object& step) { return ms_text(step.at("parts").as_object(), key); });
  }
  row("target tokens per second",
      [](const json::object& step) { return grouped_text(get_number(step, "target_tokens_per_second")); });
  row("efficiency", [](const json::object& step) {
    const auto efficiency = get_number(step, "efficiency");
    return efficiency ? fmt::format("{:.1f} %", 100 * *efficiency) : "";
  });
  if (!left_text(measured).empty()) row("left to the end", left_text);
}

}  // namespace

std::string what_if_text(const json::object& answer) {
  const json::object &measured = answer.at("measured").as_object(), &baseline = answer.at("baseline").as_object();
  const json::object* predicted = get_object(answer, "predicted");
  const bool changed = predicted != nullptr && predicted->at("setup") != baseline.at("setup");
  std::ostringstream out;
  const double error = get_number(baseline, "error").value_or(0);
  Table table({{.title = "", .importance = 100},
               {.title = "measured", .right = true},
               {.title = "as it is, predicted", .right = true},
               {.title = "changed", .right = true, .importance = 100}});
  add_rows(measured, baseline, changed ? predicted : nullptr, table);
  table.print({.out = out});
  out << '\n' << "as it is  " << setup_text(baseline) << '\n';
  if (changed) out << "changed   " << setup_text(*predicted) << '\n';
  if (predicted == nullptr) {
    out << fmt::format(
        "The model does not fit this run: it is wrong by {:+.1f} % for the run as it is, so nothing else is "
        "predicted.\n",
        100 * error);
  } else {
    out << fmt::format("Error of the prediction for the run as it is: {:+.1f} %.", 100 * error);
    if (changed) {
      out << fmt::format(" The changed update takes {} to {} ms.", ms_text(*predicted, "low_ms"),
                         ms_text(*predicted, "high_ms"));
    }
    out << '\n';
  }
  for (const auto& [name, head] : {std::pair("warnings", "warning: "), {"assumed", "assumed: "}}) {
    for (const json::value& line : answer.at(name).as_array())
      out << head << std::string_view(line.as_string()) << '\n';
  }
  return out.str();
}

void add_what_if(CLI::App& run) {
  CLI::App* command = run.add_subcommand(
      "what-if", "Predicts a run's update on other hosts, links and settings; absent: as the run has it");
  const auto arguments = std::make_shared<WhatIfArguments>();
  WhatIfArguments& a = *arguments;
  command->add_option("--hosts", a.hosts, "number of hosts")->check(CLI::Range(1, 1024));
  command->add_option("--ranks-per-host", a.ranks_per_host, "ranks on each host")->check(CLI::Range(1, 1024));
  command->add_option("--link", a.link, "link between hosts: RATE[,LATENCY] such as 25gbit,20us")->type_name("LINK");
  command->add_option("--wire", a.wire, "type of gradients in messages")
      ->check(CLI::IsMember(words_of(wire_choices())));
  command->add_option("--bucket-mb", a.bucket_mb, "MB of a bucket of f32 gradients")->check(CLI::Range(0.01, 1e4));
  command->add_option("--accumulate", a.accumulate, "updates of today's size that one update replaces")
      ->check(CLI::Range(1, 1000));
  command->add_option("--algorithm", a.algorithm, "how gradients are summed; the worker does not offer tree")
      ->check(CLI::IsMember(words_of(insight::algorithm_choices())));
  command->add_option("--optimizer", a.optimizer, "who keeps the optimizer's state; sharded: each host a shard")
      ->check(CLI::IsMember(words_of(insight::optimizer_choices())));
  command->add_option("--straggler", a.straggler, "per cent by which one rank computes slower")
      ->check(CLI::Range(0.0, 1000.0));
  a.chosen.declare(*command);
  command->callback([arguments] {
    const std::string query = query_of(*arguments);
    ApiClient api(arguments->chosen.access());
    const std::string id = text_of(find_run(api, arguments->chosen.run), "id");
    const json::object answer = api.get("/runs/" + id + "/what-if" + query);
    fmt::print("{}", arguments->chosen.as_json ? to_text(answer) + "\n" : what_if_text(answer));
  });
}

}  // namespace babelring
