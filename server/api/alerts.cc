#include <limits>
#include <set>

#include "base/clock.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/alerts/alert_watch.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"

namespace babelring::api {
namespace {

json::object alert_item(const store::AlertRow& alert) {
  return {{"id", alert.id},
          {"rule", alert.rule},
          {"kind", alert.kind},
          {"run", text_or_null(alert.run)},
          {"subject", text_or_null(alert.subject)},
          {"message", alert.message},
          {"value", alert.value},
          {"threshold", alert.threshold},
          {"update", positive_or_null(alert.update)},
          {"state", alert.cleared_ms ? "cleared" : "open"},
          {"raised_at", format_rfc3339(alert.raised_ms)},
          {"cleared_at", time_or_null(alert.cleared_ms)},
          {"acknowledged_at", time_or_null(alert.acknowledged_ms)},
          {"acknowledged_by", text_or_null(alert.acknowledged_by)}};
}

json::object rule_item(const alerts::Rule& rule) {
  return {{"name", rule.name},
          {"kind", alerts::to_string(rule.kind)},
          {"enabled", rule.enabled},
          {"threshold", rule.threshold},
          {"hold_s", rule.hold_s},
          {"clear_s", rule.clear_s},
          {"run", text_or_null(rule.run)}};
}

constexpr std::size_t max_rule_name_bytes = 64;

/// Reads the rule at `place` in the request's body.
alerts::Rule read_rule(const json::value& value, std::size_t index) {
  const std::string place = fmt::format("items/{}/", index);
  Body body(value, place);
  alerts::Rule rule;
  rule.name = body.required_text("name", max_rule_name_bytes);
  const auto kind = alerts::kind_of(body.required_text("kind", max_rule_name_bytes));
  if (!kind) Body::refuse(place + "kind", fmt::format("expected one of {}", fmt::join(alerts::kind_names, ", ")));
  rule.kind = *kind;
  constexpr double any = std::numeric_limits<double>::max();  // check_rule() checks the bounds of the kind
  const auto threshold = body.number("threshold", -any, any);
  if (!threshold) Body::refuse(place + "threshold", "expected a number");
  rule.threshold = *threshold;
  rule.hold_s = body.number("hold_s", -any, any).value_or(0);
  rule.clear_s = body.number("clear_s", -any, any).value_or(0);
  rule.enabled = body.flag("enabled").value_or(true);
  rule.run = body.text("run", max_rule_name_bytes).value_or("");
  body.finish();
  if (!rule.run.empty() && !valid_id(rule.run, 'r')) Body::refuse(place + "run", "expected a run's id or null");
  if (const Status checked = alerts::check_rule(rule); !checked) {  // "threshold: expected …"
    const std::string& fault = checked.error();
    const auto colon = fault.find(':');
    throw http::Problem(422, "rule_refused", place + fault,
                        {{"/" + place + fault.substr(0, colon), fault.substr(colon + 2)}});
  }
  return rule;
}

std::vector<alerts::Rule> read_rule_list(const http::Request& request) {
  Body body(request);
  const json::value* items = body.value("items");
  if (items == nullptr || !items->is_array()) Body::refuse("items", "expected an array of rules");
  body.finish();
  const json::array& values = items->get_array();
  if (values.size() > alerts::max_rules) {
    Body::refuse("items", fmt::format("found {} rules, expected at most {}", values.size(), alerts::max_rules));
  }
  std::vector<alerts::Rule> rules;
  std::set<std::string> names;
  for (const json::value& value : values) {
    rules.push_back(read_rule(value, rules.size()));
    const std::string& name = rules.back().name;
    if (!names.insert(name).second) {
      const std::string place = fmt::format("items/{}/name", rules.size() - 1),
                        detail = "an earlier rule has this name";
      throw http::Problem(422, "rule_refused", fmt::format("{}: '{}': {}", place, name, detail),
                          {{"/" + place, detail}});
    }
  }
  return rules;
}

json::object all_rules(Service& service) {
  auto reader = service.store.reader();
  json::array items;
  for (const auto& row : store::list_alert_rules(*reader)) items.push_back(rule_item(alerts::rule_of(row)));
  return {{"items", std::move(items)}, {"next_cursor", nullptr}};
}

}  // namespace

http::Response list_alert_rules(Service& service, const http::Request& request) {
  return resource_response(request, all_rules(service));
}

http::Response replace_alert_rules(Service& service, const http::Request& request) {
  std::vector<store::AlertRuleRow> rows;
  for (const alerts::Rule& rule : read_rule_list(request)) rows.push_back(alerts::row_of(rule));
  const auto one_at_a_time = service.edits.lock("alert-rules");
  require_match(request, state_digest(all_rules(service)));
  access::audited_write(service.audit, request, 200,
                        [&](store::Database& database) { store::replace_alert_rules(database, rows); });
  if (service.alerts != nullptr) service.alerts->reload();
  return list_alert_rules(service, request);
}

http::Response list_alerts(Service& service, const http::Request& request) {
  require_reach(request, request.query_value("run").value_or(""));
  const std::string run = request.query_value("run").value_or(""), state = request.query_value("state").value_or("");
  if (!run.empty()) require_run_id(run);
  if (!state.empty() && state != "open" && state != "cleared") {
    throw http::Problem(400, "bad_parameter", fmt::format("state: expected open or cleared, found '{}'", state));
  }
  const std::int64_t limit = page_limit(request);
  auto reader = service.store.reader();
  auto alerts = store::list_alerts(*reader, run, state, read_cursor(request).first, limit + 1);
  auto next = end_page(alerts, limit, [](const store::AlertRow& last) { return make_cursor(last.number, 0); });
  json::array items;
  for (const store::AlertRow& alert : alerts) items.push_back(alert_item(alert));
  return page_response(request, std::move(items), std::move(next));
}

http::Response acknowledge_alert(Service& service, const http::Request& request) {
  const std::string& id = request.parameter("alert");
  std::optional<store::AlertRow> alert;
  if (valid_id(id, 'a')) {
    alert = access::audited_write(service.audit, request, 200, [&](store::Database& database) {
      return store::acknowledge_alert(database, id, request.actor, wall_time_ms());
    });
  }
  if (!alert) throw http::Problem(404, "alert_unknown", fmt::format("no alert '{}'", id));
  publish_alert(service, *alert);
  return json_response(alert_item(*alert));
}

void publish_alert(Service& service, const store::AlertRow& alert) {
  service.events.publish(alert.run, "alert", to_text(alert_item(alert)));
}

}  // namespace babelring::api
