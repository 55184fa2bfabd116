#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options/usage.h"
#include "cli/probe/probe.h"
#include "cli/probe/probe_plans.h"
#include "cli/runs/table.h"
#include "lab/probe/backend_compare.h"

namespace babelring {

namespace {

struct BackendsArguments {
  std::shared_ptr<ProbeRunArguments> run = std::make_shared<ProbeRunArguments>();
  std::string a = "cuda", b = "cpu";
  bool json = false;
};

std::string worst_of(const OpDifference& difference) {
  if (difference.element < 0) return "";
  return fmt::format("{}call {}, element {} of {}: {:.9g} and {:.9g}",
                     difference.range.empty() ? "" : difference.range + " ", difference.call, difference.element,
                     difference.shape.text(), difference.value_a, difference.value_b);
}

void print_backends(const BackendComparison& comparison, const Screen& screen) {
  screen.out << fmt::format("a: {}\nb: {}\n", comparison.a, comparison.b);
  Table table({{.title = "op", .importance = 100},
               {.title = "member", .importance = 100},
               {.title = "type", .importance = 90},
               {.title = "calls", .right = true, .importance = 60},
               {.title = "different", .right = true, .importance = 80},
               {.title = "ulp", .right = true, .importance = 100},
               {.title = "relative", .right = true, .importance = 95},
               {.title = "largest ulp at", .importance = 20, .shrinks = true}});
  for (const OpDifference& difference : comparison.differences) {
    const auto elements = static_cast<double>(std::max<std::int64_t>(difference.elements, 1));
    table.add({{difference.op},
               {difference.member},
               {std::string(name_of(difference.dtype))},
               {std::to_string(difference.calls)},
               {fmt::format("{:.2f} %", 100 * static_cast<double>(difference.different) / elements)},
               {std::to_string(difference.ulp)},
               {difference.different == 0 ? "0" : fmt::format("{:.2g}", difference.relative)},
               {worst_of(difference)}});
  }
  table.print(screen);
}

void compare_given_backends(const BackendsArguments& arguments) {
  json::object all;
  for (const auto& [name, plan] : plans_of(*arguments.run)) {
    const BackendComparison comparison =
        compare_backends(plan, make_named_backend("--a", arguments.a, arguments.run->threads),
                         make_named_backend("--b", arguments.b, arguments.run->threads));
    if (arguments.json) {
      all[name.empty() ? "configured" : name] = to_json(comparison);
      continue;
    }
    if (!name.empty()) std::cout << name << '\n';
    print_backends(comparison, Screen::of_stdout());
  }
  if (arguments.json) std::cout << to_text(all) << std::endl;
}

}  // namespace

void add_probe_backends(CLI::App& probe) {
  CLI::App* command = probe.add_subcommand(
      "backends", "Runs every op by two backends on the same inputs, and shows how far their results are apart");
  const auto arguments = std::make_shared<BackendsArguments>();
  command->add_option("--a", arguments->a, "backend that is judged: cpu, cuda, emulated-cuda or f32 (the CPU in f32)")
      ->check(CLI::IsMember(backend_names))
      ->capture_default_str();
  command->add_option("--b", arguments->b, "backend whose results the work goes on with")
      ->check(CLI::IsMember(backend_names))
      ->capture_default_str();
  add_update_options(*command, arguments->run);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { compare_given_backends(*arguments); });
}

}  // namespace babelring
