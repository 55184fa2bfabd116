#include <algorithm>
#include <cmath>
#include <set>

#include "nmt/base/clock.h"
#include "nmt/base/records.h"
#include "server/api/alert_watch.h"
#include "server/api/answers.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

json::object rule_item(const alerts::Rule& rule) {
  return {{"name", rule.name},
          {"kind", alerts::to_string(rule.kind)},
          {"enabled", rule.enabled},
          {"threshold", rule.threshold},
          {"hold_s", rule.hold_s},
          {"clear_s", rule.clear_s},
          {"run", rule.run.empty() ? json::value(nullptr) : json::value(rule.run)}};
}

http::Response list_rules(Service& service) {
  auto reader = service.store.reader();
  json::array items;
  for (const auto& row : store::list_alert_rules(*reader)) items.push_back(rule_item(rule_of(row)));
  return json_response(json::object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

/// Reads one rule of the request's body; every refusal names the member by its place.
class RuleParser {
 public:
  explicit RuleParser(std::size_t index) : index_(index) {}

  alerts::Rule parse(const json::value& value) const {
    if (!value.is_object()) refuse("expected an object");
    const json::object& object = value.as_object();
    for (const auto& [name, member] : object) {
      if (std::find(members.begin(), members.end(), std::string_view(name)) == members.end()) {
        refuse(fmt::format("'{}' is not known", std::string(name)));
      }
    }
    alerts::Rule rule;
    rule.name = text(object, "name");
    const auto kind = alerts::kind_of(text(object, "kind"));
    if (!kind) refuse(fmt::format("kind: expected one of {}", fmt::join(alerts::kind_names, ", ")));
    rule.kind = *kind;
    rule.threshold = number(object, "threshold", not_given);
    rule.hold_s = number(object, "hold_s", 0);
    rule.clear_s = number(object, "clear_s", 0);
    if (const auto* enabled = object.if_contains("enabled")) {
      if (!enabled->is_bool()) refuse("enabled: expected true or false");
      rule.enabled = enabled->as_bool();
    }
    if (const auto* run = object.if_contains("run"); run != nullptr && !run->is_null()) {
      rule.run = text(object, "run");
      if (!valid_id(rule.run, 'r')) refuse("run: expected a run's id or null");
    }
    if (const auto fault = alerts::fault_of(rule)) refuse(*fault);
    return rule;
  }

 private:
  static constexpr std::array<std::string_view, 7> members = {"name",   "kind",    "enabled", "threshold",
                                                              "hold_s", "clear_s", "run"};
  static constexpr double not_given = std::numeric_limits<double>::quiet_NaN();

  [[noreturn]] void refuse(const std::string& detail) const {
    throw http::Problem(422, "rule_refused", fmt::format("items[{}]: {}", index_, detail));
  }
  std::string text(const json::object& object, const char* name) const {
    const auto* value = object.if_contains(name);
    if (value == nullptr || !value->is_string()) refuse(fmt::format("{}: expected a text", name));
    return std::string(value->as_string());
  }
  double number(const json::object& object, const char* name, double absent) const {
    const auto* value = object.if_contains(name);
    if (value == nullptr && !std::isnan(absent)) return absent;
    if (value == nullptr || !value->is_number()) refuse(fmt::format("{}: expected a number", name));
    return value->to_number<double>();
  }

  std::size_t index_;
};

std::vector<alerts::Rule> parse_rules(const http::Request& request) {
  const auto body = parse_json(request.body);
  if (!body) throw http::Problem(400, "bad_json", body.message());
  const auto* items = body->is_object() ? body->as_object().if_contains("items") : nullptr;
  if (items == nullptr || !items->is_array() || body->as_object().size() != 1) {
    throw http::Problem(422, "rule_refused", "expected {\"items\": [rule, …]}");
  }
  if (items->as_array().size() > alerts::most_rules) {
    throw http::Problem(422, "rule_refused", fmt::format("items: expected at most {} rules", alerts::most_rules));
  }
  std::vector<alerts::Rule> rules;
  std::set<std::string> names;
  for (const json::value& item : items->as_array()) {
    rules.push_back(RuleParser(rules.size()).parse(item));
    if (!names.insert(rules.back().name).second) {
      throw http::Problem(422, "rule_refused", fmt::format("items: two rules are named '{}'", rules.back().name));
    }
  }
  return rules;
}

http::Response put_rules(Service& service, const http::Request& request) {
  std::vector<store::AlertRuleRow> rows;
  for (const alerts::Rule& rule : parse_rules(request)) rows.push_back(row_of(rule));
  write(service, [&](store::Database& database) { store::replace_alert_rules(database, rows); });
  if (service.alerts != nullptr) service.alerts->reload();
  return list_rules(service);
}

http::Response list_alerts(Service& service, const http::Request& request) {
  const std::string run = request.query_value("run").value_or(""), state = request.query_value("state").value_or("");
  if (!run.empty() && !valid_id(run, 'r')) throw http::Problem(404, "run_unknown", fmt::format("no run '{}'", run));
  if (!state.empty() && state != "open" && state != "cleared") {
    throw http::Problem(400, "bad_parameter", fmt::format("state: expected open or cleared, found '{}'", state));
  }
  const std::int64_t limit = page_limit(request);
  auto reader = service.store.reader();
  auto alerts = store::list_alerts(*reader, run, state, read_cursor(request).first, limit + 1);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(alerts.size()) > limit) {
    alerts.pop_back();
    next = make_cursor(alerts.back().number, 0);
  }
  json::array items;
  for (const store::AlertRow& alert : alerts) items.push_back(alert_item(alert));
  return page_response(request, std::move(items), std::move(next));
}

http::Response acknowledge(Service& service, const http::Request& request) {
  const std::string& id = request.parameter("alert");
  std::optional<store::AlertRow> alert;
  if (valid_id(id, 'a')) {
    alert = write(service, [&](store::Database& database) {
      return store::acknowledge_alert(database, id, request.actor, wall_time_ms());
    });
  }
  if (!alert) throw http::Problem(404, "alert_unknown", fmt::format("no alert '{}'", id));
  const json::object item = alert_item(*alert);
  service.events.publish(alert->run, "alert", to_text(item));
  return json_response(item);
}

}  // namespace

void add_alert_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/alert-rules", http::Scope::read,
             [&service](const http::Request&) { return list_rules(service); });
  http::Route put{"PUT", "/api/v1/alert-rules", http::Scope::operate, std::size_t{64} << 10, false, {}, {}};
  put.handler = [&service](const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
    reply(put_rules(service, *request));
  };
  router.add(std::move(put));
  router.add("GET", "/api/v1/alerts", http::Scope::read,
             [&service](const http::Request& request) { return list_alerts(service, request); });
  http::Route post{"POST", "/api/v1/alerts/{alert}/ack", http::Scope::operate, 1024, false, {}, {}};
  post.handler = [&service](const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
    reply(acknowledge(service, *request));
  };
  router.add(std::move(post));
}

}  // namespace babelring::api
