#include "server/webhooks/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/text.h"

namespace babelring::webhooks {
namespace {

bool has_text(const std::string& array, std::string_view text) {
  const json::value texts = parse_json(array).value();
  const auto& items = texts.as_array();
  return std::any_of(items.begin(), items.end(), [&](const json::value& item) { return item.as_string() == text; });
}

/// Whether the run has all the labels, each given as NAME or NAME=VALUE.
bool has_labels(const json::object& run_labels, const std::string& wanted) {
  const json::value texts = parse_json(wanted).value();
  return std::all_of(texts.as_array().begin(), texts.as_array().end(), [&](const json::value& item) {
    const std::string text(item.as_string());
    const std::size_t equals = text.find('=');
    const json::value* const value = run_labels.if_contains(text.substr(0, equals));
    return value != nullptr && (equals == std::string::npos || *value == json::value(text.substr(equals + 1)));
  });
}

/// The run of an alert, as a message has it; null for the server's own.
struct RunOfAlert {
  std::string name;
  json::object labels;
};
std::optional<RunOfAlert> find_run_of(store::Database& database, const std::string& run) {
  if (run.empty()) return std::nullopt;
  auto query = database.prepare("SELECT name, labels FROM runs WHERE id = ?");
  std::string name, labels;
  if (!query.bind(run).next(name, labels)) return std::nullopt;
  return RunOfAlert{name, parse_json(labels).value().as_object()};
}

bool wants(const store::WebhookRow& webhook, const store::AlertRow& alert, const std::optional<RunOfAlert>& run) {
  if (webhook.alert_kinds != "[]" && !has_text(webhook.alert_kinds, alert.kind)) return false;
  return wants_run(webhook, alert.run, run ? to_text(run->labels) : "{}");
}

json::object content_of(const store::AlertRow& alert, const std::optional<RunOfAlert>& run) {
  const bool over = alert.cleared_ms.has_value();
  const std::string name = run ? run->name : alert.run.empty() ? "server" : alert.run;
  json::object told = {{"id", alert.id},
                       {"rule", alert.rule},
                       {"kind", alert.kind},
                       {"subject", alert.subject},
                       {"message", alert.message},
                       {"value", alert.value},
                       {"threshold", alert.threshold},
                       {"update", alert.update},
                       {"raised_at", format_rfc3339(alert.raised_ms)},
                       {"cleared_at", over ? json::value(format_rfc3339(*alert.cleared_ms)) : json::value()}};
  json::object content = {{"event", over ? "alert_cleared" : "alert_raised"},
                          {"time", format_rfc3339(over ? *alert.cleared_ms : alert.raised_ms)},
                          {"title", fmt::format("{}: {}{}", name, alert.rule, over ? " is over" : "")},
                          {"text", alert.message},
                          {"alert", std::move(told)},
                          {"run", nullptr}};
  if (!alert.run.empty()) {
    content["run"] = {{"id", alert.run}, {"name", name}, {"labels", run ? run->labels : json::object()}};
  }
  return content;
}

/// Text for Slack's mrkdwn, in which <…> are links and mentions.
std::string slack_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return escaped;
}

/// Text for Markdown. A zero-width space after @ keeps names of runs from mentioning people.
std::string markdown_text(std::string_view text) {
  constexpr std::string_view special = "\\`*_{}[]()#+-!|~<>";
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
    if (c == '@') escaped += "\u200b";
  }
  return escaped;
}

std::string link_of(const json::object& content, const std::string& page) {
  if (const json::object* const run = get_object(content, "run")) return page + "#/runs/" + get_text(*run, "id");
  return page + (get_text(content, "event") == "digest" ? "#/runs" : "#/alerts");
}

/// The priority of ntfy, from 1 to 5: 3 is usual, 4 makes a phone ring.
int priority_of(const json::object& content) {
  const json::object* const alert = get_object(content, "alert");
  if (alert == nullptr || get_text(content, "event") == "alert_cleared") return 3;
  return get_text(*alert, "kind") == "finished" ? 3 : 4;
}

}  // namespace

Result<Address> parse_address(std::string_view url, std::string_view kind) {
  constexpr std::string_view expected = "expected http://host/path or https://host/path without user and fragment";
  const auto parsed = boost::urls::parse_uri(url);
  if (!parsed || (parsed->scheme() != "http" && parsed->scheme() != "https") || parsed->encoded_host().empty() ||
      parsed->has_userinfo() || parsed->has_fragment() || (parsed->has_port() && parsed->port_number() == 0)) {
    return Error{fmt::format("{}, found '{}'", expected, printable(url))};
  }
  Address address;
  address.origin = std::string(parsed->scheme()) + "://" + std::string(parsed->encoded_host_and_port());
  address.target = parsed->encoded_path().empty() ? "/" : std::string(parsed->encoded_path());
  if (kind == "ntfy" && address.target.ends_with('/')) {
    return Error{fmt::format("expected a topic at the end, as in https://ntfy.sh/my-runs, found '{}'", printable(url))};
  }
  if (parsed->has_query()) address.target += "?" + std::string(parsed->encoded_query());
  return address;
}

store::DeliveryRow make_delivery(const store::WebhookRow& webhook, const json::object& content, std::int64_t now_ms) {
  return {.webhook = webhook.number,
          .id = make_id('d'),
          .event = get_text(content, "event"),
          .content = to_text(content),
          .created_ms = now_ms,
          .due_ms = now_ms};
}

bool wants_run(const store::WebhookRow& webhook, const std::string& run, const std::string& labels) {
  if (webhook.runs != "[]" && !has_text(webhook.runs, run)) return false;
  return webhook.labels == "[]" || has_labels(parse_json(labels).value().as_object(), webhook.labels);
}

bool queue_alert(store::Database& database, const store::AlertRow& alert, bool is_event) {
  const bool over = alert.cleared_ms.has_value();
  if (over && is_event) return false;
  const auto hooks = store::list_webhooks(database);
  if (hooks.empty()) return false;
  const auto run = find_run_of(database, alert.run);
  bool queued = false;
  for (const store::WebhookRow& webhook : hooks) {
    if (!webhook.enabled || !webhook.digest_at.empty() || (over && !webhook.cleared)) continue;
    if (!wants(webhook, alert, run)) continue;
    store::queue_delivery(database, make_delivery(webhook, content_of(alert, run), wall_time_ms()));
    queued = true;
  }
  return queued;
}

store::DeliveryRow queue_test(store::Database& database, const store::WebhookRow& webhook, std::int64_t now_ms) {
  const json::object content = {{"event", "test"},
                                {"time", format_rfc3339(now_ms)},
                                {"title", "Babelring: a test"},
                                {"text", fmt::format("Messages of the webhook “{}” arrive.", webhook.name)},
                                {"alert", nullptr},
                                {"run", nullptr}};
  const store::DeliveryRow delivery = make_delivery(webhook, content, now_ms);
  store::queue_delivery(database, delivery);
  return delivery;
}

Message message_of(const store::DeliveryRow& delivery, const store::WebhookRow& webhook, const std::string& page) {
  auto address = parse_address(webhook.url, webhook.kind);
  if (!address) fail("webhook {}: url: {}", webhook.id, address.error());
  Message message{.address = std::move(*address), .body = {}, .headers = {}};
  json::object content = parse_json(delivery.content).value().as_object();
  const std::string title = get_text(content, "title"), text = get_text(content, "text");
  const std::string link = link_of(content, webhook.page.empty() ? page : webhook.page);
  if (webhook.kind == "slack") {
    message.body = to_text({{"text", fmt::format("*<{}|{}>*\n{}", link, slack_text(title), slack_text(text))}});
  } else if (webhook.kind == "mattermost") {
    message.body =
        to_text({{"text", fmt::format("**[{}]({})**\n{}", markdown_text(title), link, markdown_text(text))}});
  } else if (webhook.kind == "ntfy") {
    std::string& target = message.address.target;
    const std::size_t query = std::min(target.find('?'), target.size());
    const std::size_t slash = target.rfind('/', query);
    const std::string topic = target.substr(slash + 1, query - slash - 1);
    target = target.substr(0, slash + 1) + target.substr(query);
    message.body = to_text(
        {{"topic", topic}, {"title", title}, {"message", text}, {"priority", priority_of(content)}, {"click", link}});
  } else {
    content["id"] = delivery.id;
    content["webhook"] = webhook.name;
    content["link"] = link;
    message.body = to_text(content);
  }
  message.headers = {{"X-Babelring-Delivery", delivery.id}, {"X-Babelring-Event", delivery.event}};
  if (!webhook.secret.empty()) {
    message.headers.emplace_back("X-Babelring-Signature", "sha256=" + hmac_sha256_hex(webhook.secret, message.body));
  }
  return message;
}

}  // namespace babelring::webhooks
