#include "server/store/webhooks.h"

namespace babelring::store {

template <const_or_not<WebhookRow> Row, class Column>
void visit_columns(Row& webhook, Column&& column) {
  column.key("w.webhook", webhook.number);
  column("id", webhook.id);
  column("name", webhook.name);
  column("kind", webhook.kind);
  column("url", webhook.url);
  column("secret", webhook.secret);
  column("page", webhook.page);
  column("alert_kinds", webhook.alert_kinds);
  column("runs", webhook.runs);
  column("labels", webhook.labels);
  column("cleared", webhook.cleared);
  column("enabled", webhook.enabled);
  column("digest_at", webhook.digest_at);
  column("digest_ms", webhook.digest_ms);
  column("created_by", webhook.created_by);
  column("created_ms", webhook.created_ms);
  column("dropped", webhook.dropped);
}

template <const_or_not<DeliveryRow> Row, class Column>
void visit_columns(Row& delivery, Column&& column) {
  column.key("delivery", delivery.number);
  column("webhook", delivery.webhook);
  column("id", delivery.id);
  column("event", delivery.event);
  column("content", delivery.content);
  column("state", delivery.state);
  column("created_ms", delivery.created_ms);
  column("due_ms", delivery.due_ms);
  column("tries", delivery.tries);
  column("tried_ms", delivery.tried_ms);
  column("status", delivery.status);
  column("detail", delivery.detail);
}

namespace {

// Deliveries of one webhook go in their order, so that a receiver hears of an alert's end after its beginning. A test
// waits for nothing: it tells whether the address works.
constexpr const char* tryable = R"sql(
  FROM deliveries d WHERE state = 'waiting' AND (event = 'test' OR (
    EXISTS (SELECT 1 FROM webhooks w WHERE w.webhook = d.webhook AND w.enabled) AND
    delivery = (SELECT min(delivery) FROM deliveries x
                WHERE x.webhook = d.webhook AND x.state = 'waiting' AND x.event <> 'test'))) )sql";

}  // namespace

std::vector<WebhookRow> list_webhooks(Database& database) {
  static const std::string sql = select<WebhookRow>("FROM webhooks w ORDER BY w.webhook");
  return database.prepare(sql).all<WebhookRow>();
}

std::optional<WebhookRow> find_webhook(Database& database, std::string_view id) {
  static const std::string sql = select<WebhookRow>("FROM webhooks w WHERE id = ?");
  return database.prepare(sql).bind(id).first<WebhookRow>();
}

void add_webhook(Database& database, const WebhookRow& webhook) {
  static const std::string sql = insert_into<WebhookRow>("webhooks");
  database.prepare(sql).bind(webhook).run();
}

void replace_webhook(Database& database, const WebhookRow& webhook) {
  database
      .prepare(
          "UPDATE webhooks SET name = ?2, kind = ?3, url = ?4, secret = ?5, page = ?6, alert_kinds = ?7, runs = ?8, "
          "labels = ?9, cleared = ?10, enabled = ?11, digest_at = ?12, digest_ms = ?13 WHERE id = ?1")
      .bind(webhook.id, webhook.name, webhook.kind, webhook.url, webhook.secret, webhook.page, webhook.alert_kinds,
            webhook.runs, webhook.labels, webhook.cleared, webhook.enabled, webhook.digest_at, webhook.digest_ms)
      .run();
  database
      .prepare(
          "UPDATE deliveries SET due_ms = created_ms WHERE state = 'waiting' AND webhook = (SELECT webhook FROM "
          "webhooks "
          "WHERE id = ?)")
      .bind(webhook.id)
      .run();
}

void mark_digest(Database& database, std::int64_t webhook, std::int64_t now_ms) {
  database.prepare("UPDATE webhooks SET digest_ms = ? WHERE webhook = ?").bind(now_ms, webhook).run();
}

bool remove_webhook(Database& database, std::string_view id) {
  auto remove = database.prepare("DELETE FROM webhooks WHERE id = ? RETURNING webhook");
  return remove.bind(id).step();
}

void queue_delivery(Database& database, const DeliveryRow& delivery) {
  static const std::string sql = insert_into<DeliveryRow>("deliveries");
  if (count_waiting(database, delivery.webhook) >= max_waiting) {
    database
        .prepare(
            "DELETE FROM deliveries WHERE delivery = (SELECT min(delivery) FROM deliveries WHERE webhook = ? AND state "
            "= 'waiting')")
        .bind(delivery.webhook)
        .run();
    database.prepare("UPDATE webhooks SET dropped = dropped + 1 WHERE webhook = ?").bind(delivery.webhook).run();
  }
  database.prepare(sql).bind(delivery).run();
}

void store_try(Database& database, const DeliveryRow& delivery) {
  database
      .prepare(
          "UPDATE deliveries SET state = ?2, due_ms = ?3, tries = ?4, tried_ms = ?5, status = ?6, detail = ?7 WHERE "
          "delivery = ?1")
      .bind(delivery.number, delivery.state, delivery.due_ms, delivery.tries, delivery.tried_ms, delivery.status,
            delivery.detail)
      .run();
  database
      .prepare(
          "DELETE FROM deliveries WHERE webhook = ?1 AND state <> 'waiting' AND delivery <= (SELECT delivery FROM "
          "deliveries WHERE webhook = ?1 AND state <> 'waiting' ORDER BY delivery DESC LIMIT 1 OFFSET ?2)")
      .bind(delivery.webhook, max_settled)
      .run();
}

std::vector<DueDelivery> due_deliveries(Database& database, std::int64_t now_ms, std::int64_t latest_ms) {
  static const std::string sql =
      select<DeliveryRow>(tryable + std::string("AND (due_ms <= ? OR due_ms > ?) ORDER BY event <> 'test', due_ms"));
  static const std::string webhook_sql = select<WebhookRow>("FROM webhooks w WHERE w.webhook = ?");
  std::vector<DueDelivery> due;
  for (DeliveryRow& delivery : database.prepare(sql).bind(now_ms, latest_ms).all<DeliveryRow>()) {
    auto webhook = database.prepare(webhook_sql).bind(delivery.webhook).value<WebhookRow>();
    due.push_back({std::move(delivery), std::move(webhook)});
  }
  return due;
}

std::optional<std::int64_t> next_due_ms(Database& database) {
  static const std::string sql = std::string("SELECT due_ms ") + tryable + "ORDER BY due_ms LIMIT 1";
  return database.prepare(sql).first<std::int64_t>();
}

std::int64_t count_waiting(Database& database, std::int64_t webhook) {
  return database.prepare("SELECT count(*) FROM deliveries WHERE webhook = ? AND state = 'waiting'")
      .bind(webhook)
      .value<std::int64_t>();
}

std::vector<DeliveryRow> list_deliveries(Database& database, std::int64_t webhook, std::int64_t before,
                                         std::int64_t limit) {
  static const std::string sql = select<DeliveryRow>(
      "FROM deliveries WHERE webhook = ?1 AND (?2 = 0 OR delivery < ?2) ORDER BY delivery DESC LIMIT ?3");
  return database.prepare(sql).bind(webhook, before, limit).all<DeliveryRow>();
}

}  // namespace babelring::store
