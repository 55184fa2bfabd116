#include "server/webhooks/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "server/store/alerts.h"
#include "server/store/runs.h"
#include "server/webhooks/message.h"

namespace babelring::webhooks {
namespace {

constexpr std::size_t max_listed = 20;  // runs of a kind; the text names how many more there are
constexpr std::int64_t day_ms = 86'400'000;

std::optional<int> number_at(std::string_view text, std::size_t place, int end) {
  const auto number = parse_number<int>(text.substr(place, 2));
  return number && *number >= 0 && *number < end ? number : std::nullopt;
}

/// The runs of the webhook among `ids`, without deleted and archived ones.
std::vector<store::RunRow> runs_of(store::Reader& reader, const store::WebhookRow& webhook,
                                   const std::vector<std::string>& ids) {
  std::vector<store::RunRow> runs;
  for (const std::string& id : ids) {
    auto run = store::find_run(reader, id);
    if (run && !run->archived && !run->deleted_ms && wants_run(webhook, run->id, run->labels)) {
      runs.push_back(std::move(*run));
    }
  }
  return runs;
}

/// Ids of the runs that ended after `since_ms`, by the server's clock, and did not go on.
std::vector<std::string> ended_since(store::Reader& reader, std::int64_t since_ms) {
  return reader.database
      .prepare(
          "SELECT r.id FROM runs r WHERE r.state IN ('succeeded', 'failed', 'lost', 'stopped') AND EXISTS (SELECT 1 "
          "FROM transitions t WHERE t.run = r.run AND t.time_ms > ? AND t.new_state = r.state) ORDER BY r.run")
      .bind(since_ms)
      .all<std::string>();
}

json::object item_of(const store::RunRow& run) {
  json::object item = {{"id", run.id},
                       {"name", run.name},
                       {"state", name_of(run.state)},
                       {"detail", run.detail},
                       {"update", run.last.step}};
  const auto best = run.best_eval ? parse_json(run.best_eval->body).value().as_object() : json::object();
  for (const char* measure : {"sacrebleu", "chrf", "loss"}) {
    const auto value = get_number(best, measure);
    item[std::string("best_") + measure] = value ? json::value(*value) : json::value();
  }
  return item;
}

/// "big: failed at update 1,200, best BLEU 27.31: rank 1 killed by signal 9".
std::string line_of(const json::object& item) {
  std::string line = fmt::format("{}: {} at update {}", get_text(item, "name"), get_text(item, "state"),
                                 grouped(static_cast<double>(get_integer(item, "update"))));
  if (const auto bleu = get_number(item, "best_sacrebleu")) {
    line += fmt::format(", best BLEU {:.2f}", *bleu);
  } else if (const auto loss = get_number(item, "best_loss")) {
    line += fmt::format(", best loss {:.4f}", *loss);
  }
  const std::string detail = get_text(item, "detail");
  return detail.empty() ? line : line + ": " + detail;
}

/// A digest while it is composed.
struct Digest {
  json::object lists;
  std::string text;
  std::vector<std::string> counts;  // "2 failed"

  void add(const char* name, const std::string& title, const std::vector<json::object>& items) {
    json::array listed;
    if (!items.empty()) text += fmt::format("{}{}:", text.empty() ? "" : "\n", title);
    for (const json::object& item : items) {
      if (listed.size() == max_listed) break;
      text += "\n- " + (item.contains("message") ? fmt::format("{}: {}: {}", get_text(item, "name"),
                                                               get_text(item, "rule"), get_text(item, "message"))
                                                 : line_of(item));
      listed.push_back(item);
    }
    if (items.size() > max_listed) text += fmt::format("\n- and {} more", items.size() - max_listed);
    lists[name] = std::move(listed);
  }
  void count(std::size_t number, const char* word) {
    if (number > 0) counts.push_back(fmt::format("{} {}", number, word));
  }
};

std::vector<json::object> items_of(const std::vector<store::RunRow>& runs) {
  std::vector<json::object> items;
  for (const store::RunRow& run : runs) items.push_back(item_of(run));
  return items;
}

/// Open alerts about runs that have not ended, and about the server.
std::vector<json::object> open_alerts(store::Reader& reader, const store::WebhookRow& webhook) {
  std::vector<json::object> items;
  for (const store::AlertRow& alert : store::open_alerts(reader)) {
    const bool wanted = alert.run.empty() ? webhook.runs == "[]" && webhook.labels == "[]"
                                          : !runs_of(reader, webhook, {alert.run}).empty();
    if (!wanted || alert.kind == "failed" || alert.kind == "finished") continue;
    const auto run = alert.run.empty() ? std::nullopt : store::find_run(reader, alert.run);
    items.push_back({{"id", alert.id},
                     {"run", alert.run.empty() ? json::value() : json::value(alert.run)},
                     {"name", run ? run->name : "server"},
                     {"rule", alert.rule},
                     {"message", alert.message},
                     {"raised_at", format_rfc3339(alert.raised_ms)}});
  }
  return items;
}

}  // namespace

bool is_time_of_day(std::string_view text) {
  return text.size() == 5 && text[2] == ':' && number_at(text, 0, 24) && number_at(text, 3, 60);
}

std::int64_t next_time_of_day(const std::string& time_of_day, std::int64_t after_ms) {
  const std::time_t after = after_ms / 1000;
  for (int days = 0;; ++days) {
    std::tm local{};
    localtime_r(&after, &local);
    local.tm_mday += days;
    local.tm_hour = number_at(time_of_day, 0, 24).value_or(0);
    local.tm_min = number_at(time_of_day, 3, 60).value_or(0);
    local.tm_sec = 0;
    local.tm_isdst = -1;  // as the clocks are on that day
    const std::int64_t found = std::int64_t{std::mktime(&local)} * 1000;
    if (found > after_ms) return found;
  }
}

std::optional<std::int64_t> next_digest_ms(const store::WebhookRow& webhook) {
  if (!webhook.enabled || webhook.digest_at.empty()) return std::nullopt;
  return next_time_of_day(webhook.digest_at, webhook.digest_ms);
}

store::DeliveryRow make_digest(store::Reader& reader, const store::WebhookRow& webhook, std::int64_t now_ms) {
  const std::int64_t since_ms = std::max(webhook.digest_ms, now_ms - 7 * day_ms);
  const auto ended = runs_of(reader, webhook, ended_since(reader, since_ms));
  std::vector<std::string> ids;
  for (const store::RunningRow& row : store::list_running(reader)) ids.push_back(row.run);
  const auto running = runs_of(reader, webhook, ids);
  const auto alerts = open_alerts(reader, webhook);
  Digest digest;
  constexpr std::pair<store::RunState, const char*> ends[] = {{store::RunState::failed, "failed"},
                                                              {store::RunState::lost, "lost"},
                                                              {store::RunState::succeeded, "finished"},
                                                              {store::RunState::stopped, "stopped"}};
  for (const auto& end : ends) {
    const auto is_so = [&](const store::RunRow& run) { return run.state == end.first; };
    digest.count(static_cast<std::size_t>(std::count_if(ended.begin(), ended.end(), is_so)), end.second);
  }
  digest.count(alerts.size(), alerts.size() == 1 ? "open alert" : "open alerts");
  digest.count(running.size(), "running");
  digest.add("ended", "Ended", items_of(ended));
  digest.add("open_alerts", "Open alerts", alerts);
  digest.add("running", "Running", items_of(running));
  digest.lists["since"] = format_rfc3339(since_ms);
  digest.lists["until"] = format_rfc3339(now_ms);
  const std::string counts = fmt::format("{}", fmt::join(digest.counts, ", "));
  const json::object content = {{"event", "digest"},
                                {"time", format_rfc3339(now_ms)},
                                {"title", "Digest: " + (counts.empty() ? "nothing happened" : counts)},
                                {"text", digest.text.empty() ? "No run ended, and none is running." : digest.text},
                                {"alert", nullptr},
                                {"run", nullptr},
                                {"digest", std::move(digest.lists)}};
  return make_delivery(webhook, content, now_ms);
}

}  // namespace babelring::webhooks
