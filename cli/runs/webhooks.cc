// `nmt webhook`: the addresses that a server tells of alerts.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"
#include "base/options/usage.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

constexpr const char* all_webhooks = "/webhooks";
constexpr std::size_t max_deliveries = 500;

std::string path_of(const json::object& webhook) {
  return "/webhooks/" + text_of(webhook, "id");
}

json::array items_of_webhooks(ApiClient& api) {
  return api.get(all_webhooks).at("items").as_array();
}

/// Finds a webhook by its id or name. Throws Failure if there is none, or if several have the name.
json::object find_webhook(ApiClient& api, const std::string& named) {
  std::vector<json::object> found;
  for (const json::value& each : items_of_webhooks(api)) {
    const json::object& webhook = each.as_object();
    if (text_of(webhook, "id") == named || text_of(webhook, "name") == named) found.push_back(webhook);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    fail("{} has no webhook '{}' (`nmt webhook list` shows all)", api.access().address, printable(named));
  fail("{} webhooks are named '{}'; give an id", found.size(), printable(named));
}

std::string names_in(const json::object& webhook, std::string_view member) {
  std::string text;
  for (const json::value& item : webhook.at(member).as_array()) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", printable(std::string_view(item.as_string())));
  }
  return text;
}

/// "delivered 22:46", or "waiting: connect: Connection refused".
Table::Cell outcome_cell(const json::object* delivery) {
  if (delivery == nullptr) return {"nothing yet"};
  const std::string state = text_of(*delivery, "state"), detail = text_of(*delivery, "detail");
  const std::string time = local_times(text_of(*delivery, "tried_at"), wall_time_ms());
  const Colour colour = state == "delivered" ? Colour::green : state == "failed" ? Colour::red : Colour::yellow;
  return {fmt::format("{}{}{}{}{}", state, time.empty() ? "" : " ", time, detail.empty() ? "" : ": ", detail), colour};
}

std::string tells_of(const json::object& webhook) {
  const std::string kinds = names_in(webhook, "alert_kinds"), digest = text_of(webhook, "digest_at");
  if (!digest.empty()) return "digest at " + digest;
  return kinds.empty() ? "all" : kinds;
}

void list_webhooks(const ServerChoice& server) {
  ApiClient api(server.access());
  const Screen screen = Screen::of_stdout();
  const json::array webhooks = items_of_webhooks(api);
  if (server.as_json) {
    screen.out << to_text(webhooks) << '\n';
    return;
  }
  Table table({{.title = "ID", .importance = 80},
               {.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "KIND", .importance = 90},
               {.title = "URL", .importance = 60, .shrinks = true, .shrinks_at = 60, .comfortable = 30},
               {.title = "ALERTS", .importance = 50, .shrinks = true},
               {.title = "RUNS", .importance = 40, .shrinks = true},
               {.title = "LABELS", .importance = 40, .shrinks = true},
               {.title = "WAITING", .right = true, .importance = 70},
               {.title = "LAST", .importance = 100, .shrinks = true, .shrinks_at = 65, .comfortable = 30}});
  for (const json::value& each : webhooks) {
    const json::object& webhook = each.as_object();
    table.add({{text_of(webhook, "id")},
               {text_of(webhook, "name") + (get_flag(webhook, "enabled") ? "" : " (off)")},
               {text_of(webhook, "kind")},
               {text_of(webhook, "url")},
               {tells_of(webhook)},
               {names_in(webhook, "runs")},
               {names_in(webhook, "labels")},
               {grouped_text(get_number(webhook, "waiting"))},
               outcome_cell(get_object(webhook, "last"))});
  }
  if (table.empty()) {
    screen.out << "no webhooks\n";
  } else {
    table.print(screen);
  }
}

/// Members of a webhook that the user gave.
struct WebhookOptions {
  std::optional<std::string> name, kind, url, page, digest_at;
  std::optional<std::vector<std::string>> alert_kinds, runs, labels;
  std::optional<bool> cleared, enabled;
  std::string secret_file;
  bool unsigned_ = false;

  void declare(CLI::App& command) {
    command.add_option("--kind", kind, "form of the messages")
        ->check(CLI::IsMember({"json", "slack", "mattermost", "ntfy"}));
    command.add_option("--url", url, "where messages go; for ntfy with the topic at the end");
    command.add_option("--alerts", alert_kinds, "only alerts of these kinds: failed,silent,stall,…")
        ->delimiter(',')
        ->allow_extra_args(false);
    command.add_option("--runs", runs, "only alerts of these runs, by id, name or a unique prefix")
        ->delimiter(',')
        ->allow_extra_args(false);
    command.add_option("--label", labels, "only alerts of runs with this label, NAME or NAME=VALUE; may be repeated")
        ->allow_extra_args(false);
    command.add_option("--cleared", cleared, "tell of alerts that are over, too");
    command.add_option("--digest", digest_at,
                       "local time of the server, as 08:00, for a daily digest instead of alerts at once; '': none");
    command.add_option("--page", page, "address of the dashboard for links; default: the server's own");
    command
        .add_option("--secret-file", secret_file,
                    "file with the secret that signs messages; default: a new one for json")
        ->check(existing_file);
    command.add_flag("--unsigned", unsigned_, "do not sign messages");
  }
  json::object body(ApiClient& api) const {
    json::object body;
    for (const auto& [member, text] : {std::pair("name", &name), std::pair("kind", &kind), std::pair("url", &url),
                                       std::pair("page", &page), std::pair("digest_at", &digest_at)}) {
      if (*text) body[member] = **text;
    }
    if (alert_kinds) body["alert_kinds"] = json::array(alert_kinds->begin(), alert_kinds->end());
    if (labels) body["labels"] = json::array(labels->begin(), labels->end());
    if (runs) {
      json::array ids;
      for (const std::string& run : *runs) ids.push_back(json::value(text_of(find_run(api, run), "id")));
      body["runs"] = std::move(ids);
    }
    if (cleared) body["cleared"] = *cleared;
    if (enabled) body["enabled"] = *enabled;
    if (unsigned_ && !secret_file.empty()) throw UsageFailure("--unsigned and --secret-file exclude each other");
    if (unsigned_) body["secret"] = "";
    if (!secret_file.empty()) {
      const std::string text = read_file(secret_file);
      body["secret"] = text.substr(0, text.find_first_of("\r\n"));
    }
    return body;
  }
};

struct WebhookArguments {
  ServerChoice server;
  std::string webhook;  // id or name
  WebhookOptions options;
};

void print_webhook(const json::object& webhook, bool as_json, std::string_view done) {
  const Screen screen = Screen::of_stdout();
  if (as_json) {
    screen.out << to_text(webhook) << '\n';
    return;
  }
  screen.out << fmt::format("{} {} ({})\n", done, text_of(webhook, "id"), text_of(webhook, "name"));
  const std::string secret = text_of(webhook, "secret");
  if (!secret.empty()) screen.out << fmt::format("secret, which is not shown again: {}\n", secret);
}

/// Warns of kinds that the webhook names and no rule raises.
void warn_of_rules(ApiClient& api, const json::object& webhook) {
  const json::array rules = api.get("/alert-rules").at("items").as_array();
  for (const json::value& kind : webhook.at("alert_kinds").as_array()) {
    const std::string name(kind.as_string());
    const bool raised = std::any_of(rules.begin(), rules.end(), [&](const json::value& rule) {
      return text_of(rule.as_object(), "kind") == name && get_flag(rule.as_object(), "enabled");
    });
    if (!raised) spdlog::warn("no rule that is on raises alerts of kind {}: see `nmt rule`", name);
  }
}

void create_webhook(const WebhookArguments& arguments) {
  ApiClient api(arguments.server.access());
  const json::object body = arguments.options.body(api);
  const json::object webhook = api.send("POST", all_webhooks, body, make_id('k'));
  print_webhook(webhook, arguments.server.as_json, "created");
  warn_of_rules(api, webhook);
}

void edit_webhook(const WebhookArguments& arguments) {
  ApiClient api(arguments.server.access());
  const json::object body = arguments.options.body(api);
  if (body.empty()) throw UsageFailure("expected at least one option that changes the webhook");
  const ApiClient::Tagged before = api.get_tagged(path_of(find_webhook(api, arguments.webhook)));
  const json::object after = api.send("PATCH", path_of(before.value), body, {}, {{"If-Match", before.tag}});
  print_webhook(after, arguments.server.as_json, "changed");
  warn_of_rules(api, after);
}

void remove_webhook(const WebhookArguments& arguments) {
  ApiClient api(arguments.server.access());
  const json::object webhook = find_webhook(api, arguments.webhook);
  api.send("DELETE", path_of(webhook), {});
  print_webhook(webhook, arguments.server.as_json, "removed");
}

/// Sends a test and waits for its outcome. Ends with exit code 1 if it was not taken.
void test_webhook(const WebhookArguments& arguments) {
  ApiClient api(arguments.server.access());
  const std::string path = path_of(find_webhook(api, arguments.webhook));
  json::object delivery = api.send("POST", path + "/test", {});
  const std::string id = text_of(delivery, "id");
  while (text_of(delivery, "state") == "waiting") {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    bool found = false;
    for (json::object& each : api.get_items(path + "/deliveries", max_deliveries)) {
      if (text_of(each, "id") != id) continue;
      delivery = std::move(each);
      found = true;
      break;
    }
    if (!found) fail("the webhook or its test was removed meanwhile");
  }
  const Screen screen = Screen::of_stdout();
  if (arguments.server.as_json) {
    screen.out << to_text(delivery) << '\n';
  } else {
    const Table::Cell outcome = outcome_cell(&delivery);
    screen.out << screen.coloured(outcome.text, outcome.colour) << '\n';
  }
  screen.out.flush();
  if (text_of(delivery, "state") != "delivered") throw CLI::RuntimeError(1);
}

void add_webhook_command(CLI::App& webhook, const char* name, const char* help, bool options,
                         void (*run)(const WebhookArguments&)) {
  CLI::App* command = webhook.add_subcommand(name, help);
  const auto arguments = std::make_shared<WebhookArguments>();
  command->add_option("webhook", arguments->webhook, "id or name")->required();
  if (options) {
    command->add_option("--name", arguments->options.name, "new name");
    command->add_option("--enabled", arguments->options.enabled, "send messages");
    arguments->options.declare(*command);
  }
  arguments->server.declare(*command);
  command->callback([arguments, run] { run(*arguments); });
}

}  // namespace

void add_webhook(CLI::App& app) {
  CLI::App* webhook =
      app.add_subcommand("webhook", "Lists, adds, changes and tests addresses that a server tells of alerts");
  webhook->require_subcommand(1);
  CLI::App* listing = webhook->add_subcommand("list", "Lists webhooks with their last outcome");
  const auto server = std::make_shared<ServerChoice>();
  server->declare(*listing);
  listing->callback([server] { list_webhooks(*server); });
  CLI::App* adding = webhook->add_subcommand("add", "Adds a webhook");
  const auto arguments = std::make_shared<WebhookArguments>();
  adding->add_option("name", arguments->options.name, "a name for it")->required();
  arguments->options.declare(*adding);
  adding->get_option("--kind")->required();
  adding->get_option("--url")->required();
  arguments->server.declare(*adding);
  adding->callback([arguments] { create_webhook(*arguments); });
  add_webhook_command(*webhook, "edit", "Changes a webhook", true, edit_webhook);
  add_webhook_command(*webhook, "remove", "Removes a webhook, and what waits for it", false, remove_webhook);
  add_webhook_command(*webhook, "test", "Sends a test message and tells how it went", false, test_webhook);
}

}  // namespace babelring
