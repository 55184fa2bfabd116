// `nmt alert` and `nmt rule`: what a server warns of, and when.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

constexpr std::size_t max_listed_alerts = 500;
constexpr const char* all_rules = "/alert-rules";

struct AlertArguments {
  ServerChoice server;
  std::string run;                  // id, name or a prefix; empty: all
  bool cleared = false;             // lists those that are over, too
  std::vector<std::string> alerts;  // ids
  bool all = false;                 // acknowledges all that are open
};

std::vector<json::object> alerts_of(ApiClient& api, const AlertArguments& arguments) {
  std::string target = arguments.cleared ? "/alerts" : "/alerts?state=open";
  if (!arguments.run.empty()) {
    target += fmt::format("{}run={}", arguments.cleared ? '?' : '&', text_of(find_run(api, arguments.run), "id"));
  }
  return api.get_items(target, max_listed_alerts);
}

void list_alerts(const AlertArguments& arguments) {
  ApiClient api(arguments.server.access());
  const Screen screen = Screen::of_stdout();
  const std::vector<json::object> alerts = alerts_of(api, arguments);
  if (arguments.server.as_json) {
    screen.out << to_text(json::array(alerts.begin(), alerts.end())) << '\n';
    return;
  }
  Table table({{.title = "ID", .importance = 80},
               {.title = "KIND", .importance = 100},
               {.title = "RUN", .importance = 70},
               {.title = "SINCE", .importance = 90},
               {.title = "OVER", .importance = 60},
               {.title = "SEEN BY", .importance = 40, .shrinks = true},
               {.title = "MESSAGE", .importance = 100, .shrinks = true, .shrinks_at = 65, .comfortable = 40}});
  const std::int64_t now_ms = wall_time_ms();
  for (const json::object& alert : alerts) {
    const bool open = text_of(alert, "state") == "open";
    table.add({{text_of(alert, "id")},
               {text_of(alert, "kind"), open ? Colour::red : Colour::none},
               {text_of(alert, "run")},
               {local_times(text_of(alert, "raised_at"), now_ms)},
               {local_times(text_of(alert, "cleared_at"), now_ms)},
               {text_of(alert, "acknowledged_by")},
               {text_of(alert, "message")}});
  }
  if (table.empty()) {
    screen.out << (arguments.cleared ? "no alerts\n" : "no open alerts\n");
  } else {
    table.print(screen);
  }
}

void acknowledge_alerts(const AlertArguments& arguments) {
  if (arguments.all == !arguments.alerts.empty()) throw UsageFailure("expected ids of alerts, or --all");
  ApiClient api(arguments.server.access());
  std::vector<std::string> ids = arguments.alerts;
  if (arguments.all) {
    for (const json::object& alert : alerts_of(api, arguments)) {
      if (text_of(alert, "acknowledged_by").empty()) ids.push_back(text_of(alert, "id"));
    }
  }
  const Screen screen = Screen::of_stdout();
  json::array done;
  for (const std::string& id : ids) {
    done.push_back(api.send("POST", fmt::format("/alerts/{}/ack", percent_encoded(id)), {}));
    if (arguments.server.as_json) continue;
    const json::object& alert = done.back().as_object();
    screen.out << fmt::format("acknowledged {}: {}\n", text_of(alert, "kind"), text_of(alert, "message"));
  }
  if (arguments.server.as_json) screen.out << to_text(done) << '\n';
  if (ids.empty() && !arguments.server.as_json) screen.out << "no alerts to acknowledge\n";
}

struct RuleArguments {
  ServerChoice server;
  std::string rule, kind;
  std::optional<double> threshold, hold_s, clear_s;
  std::optional<std::string> run;
  std::optional<bool> enabled;

  bool changes() const { return threshold || hold_s || clear_s || run || enabled; }
};

void list_rules(const ServerChoice& server) {
  ApiClient api(server.access());
  const Screen screen = Screen::of_stdout();
  const json::array rules = api.get(all_rules).at("items").as_array();
  if (server.as_json) {
    screen.out << to_text(rules) << '\n';
    return;
  }
  Table table({{.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "KIND", .importance = 90},
               {.title = "THRESHOLD", .right = true, .importance = 80},
               {.title = "AFTER S", .right = true, .importance = 60},
               {.title = "OVER AFTER S", .right = true, .importance = 50},
               {.title = "RUN", .importance = 70}});
  for (const json::value& each : rules) {
    const json::object& rule = each.as_object();
    const auto number = [&](std::string_view member) {
      return fmt::format("{}", get_number(rule, member).value_or(0));
    };
    table.add({{text_of(rule, "name") + (get_flag(rule, "enabled") ? "" : " (off)")},
               {text_of(rule, "kind")},
               {number("threshold")},
               {number("hold_s")},
               {number("clear_s")},
               {text_of(rule, "run")}});
  }
  if (table.empty()) {
    screen.out << "no rules\n";
  } else {
    table.print(screen);
  }
}

/// Applies `change` to the list of rules, and sends the list. Throws ServerRefusal 412 if another client changed it at
/// the same moment.
template <class Change>
void change_rules(const RuleArguments& arguments, std::string_view done, Change change) {
  ApiClient api(arguments.server.access());
  ApiClient::Tagged before = api.get_tagged(all_rules);
  json::array rules = before.value.at("items").as_array();
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const json::value& rule) {
    return text_of(rule.as_object(), "name") == arguments.rule;
  });
  change(api, rules, found);
  const json::object after = api.send("PUT", all_rules, {{"items", std::move(rules)}}, {}, {{"If-Match", before.tag}});
  const Screen screen = Screen::of_stdout();
  if (arguments.server.as_json) {
    screen.out << to_text(after.at("items")) << '\n';
  } else {
    screen.out << fmt::format("{} rule {}\n", done, printable(arguments.rule));
  }
}

[[noreturn]] void refuse_unknown(const ApiClient& api, const std::string& rule) {
  fail("{} has no rule '{}' (`nmt rule list` shows all)", api.access().address, printable(rule));
}

void set_members(ApiClient& api, const RuleArguments& arguments, json::object& rule) {
  if (arguments.threshold) rule["threshold"] = *arguments.threshold;
  if (arguments.hold_s) rule["hold_s"] = *arguments.hold_s;
  if (arguments.clear_s) rule["clear_s"] = *arguments.clear_s;
  if (arguments.enabled) rule["enabled"] = *arguments.enabled;
  if (!arguments.run) return;
  rule["run"] = nullptr;
  if (!arguments.run->empty()) rule["run"] = text_of(find_run(api, *arguments.run), "id");
}

void create_rule(const RuleArguments& arguments) {
  change_rules(arguments, "added", [&](ApiClient& api, json::array& rules, json::array::iterator found) {
    if (found != rules.end()) {
      fail("{} has a rule '{}' (`nmt rule edit` changes it)", api.access().address, printable(arguments.rule));
    }
    json::object rule = {{"name", arguments.rule}, {"kind", arguments.kind}};
    set_members(api, arguments, rule);
    rules.push_back(std::move(rule));
  });
}

void edit_rule(const RuleArguments& arguments) {
  if (!arguments.changes()) {
    throw UsageFailure("expected at least one of --threshold, --after, --over-after, --run, --enabled");
  }
  change_rules(arguments, "changed", [&](ApiClient& api, json::array& rules, json::array::iterator found) {
    if (found == rules.end()) refuse_unknown(api, arguments.rule);
    set_members(api, arguments, found->as_object());
  });
}

void remove_rule(const RuleArguments& arguments) {
  change_rules(arguments, "removed", [&](ApiClient& api, json::array& rules, json::array::iterator found) {
    if (found == rules.end()) refuse_unknown(api, arguments.rule);
    rules.erase(found);
  });
}

void add_rule_command(CLI::App& rule, const char* name, const char* help, void (*run)(const RuleArguments&)) {
  CLI::App* command = rule.add_subcommand(name, help);
  const auto arguments = std::make_shared<RuleArguments>();
  const bool adds = run == create_rule, removes = run == remove_rule;
  command->add_option("rule", arguments->rule, "its name: a-z, 0-9, _ and -")->required();
  if (adds) {
    command
        ->add_option("--kind", arguments->kind, "what it watches: stall, silent, disk_low, … (docs/api.md lists all)")
        ->required();
  }
  if (!removes) {
    CLI::Option* threshold =
        command->add_option("--threshold", arguments->threshold,
                            "value that raises an alert, in the unit of the kind: docs/api.md lists them");
    threshold->required(adds);
    command->add_option("--after", arguments->hold_s, "seconds that the condition must hold before an alert is raised")
        ->type_name("SECONDS");
    command
        ->add_option("--over-after", arguments->clear_s,
                     "seconds that the condition must be over before the alert ends")
        ->type_name("SECONDS");
    command->add_option("--run", arguments->run, "only for this run, by id, name or a unique prefix; '': for all");
    command->add_option("--enabled", arguments->enabled, "raise alerts");
  }
  arguments->server.declare(*command);
  command->callback([arguments, run] { run(*arguments); });
}

}  // namespace

void add_alert(CLI::App& app) {
  CLI::App* alert = app.add_subcommand("alert", "Lists and acknowledges what a server warns of");
  alert->require_subcommand(1);
  CLI::App* listing = alert->add_subcommand("list", "Lists open alerts, newest first");
  const auto listed = std::make_shared<AlertArguments>();
  listing->add_option("run", listed->run, "only alerts of this run, by id, name or a unique prefix");
  listing->add_flag("--cleared", listed->cleared, "those that are over, too");
  listed->server.declare(*listing);
  listing->callback([listed] { list_alerts(*listed); });
  CLI::App* acknowledging = alert->add_subcommand("ack", "Acknowledges alerts: they are marked as seen by you");
  const auto acknowledged = std::make_shared<AlertArguments>();
  acknowledging->add_option("alerts", acknowledged->alerts, "ids of alerts");
  acknowledging->add_flag("--all", acknowledged->all, "all open ones that nobody has acknowledged");
  acknowledged->server.declare(*acknowledging);
  acknowledging->callback([acknowledged] { acknowledge_alerts(*acknowledged); });
}

void add_rule(CLI::App& app) {
  CLI::App* rule = app.add_subcommand("rule", "Lists, adds and changes the rules by which a server raises alerts");
  rule->require_subcommand(1);
  CLI::App* listing = rule->add_subcommand("list", "Lists the rules");
  const auto server = std::make_shared<ServerChoice>();
  server->declare(*listing);
  listing->callback([server] { list_rules(*server); });
  add_rule_command(*rule, "add", "Adds a rule", create_rule);
  add_rule_command(*rule, "edit", "Changes a rule", edit_rule);
  add_rule_command(*rule, "remove", "Removes a rule; its alerts are over", remove_rule);
}

}  // namespace babelring
