#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"

/// Webhooks and their deliveries. All functions throw SqlFailure. Call those that take a Database& inside Store::write.
namespace babelring::store {

struct WebhookRow {
  std::int64_t number = 0;  // creation order
  std::string id, name;     // w_…
  std::string kind;         // json, slack, mattermost or ntfy
  std::string url, secret;  // secret empty: deliveries are not signed
  std::string page;         // address of the dashboard for links; empty: the server's own
  std::string alert_kinds = "[]", runs = "[]", labels = "[]";  // JSON arrays of texts; empty: any
  bool cleared = false;                                        // also tell of alerts that were cleared
  bool enabled = true;
  std::string digest_at;       // local time of a daily digest instead of alerts at once, as 08:00; empty: none
  std::int64_t digest_ms = 0;  // time of the last digest, or since when there is one
  std::string created_by;
  std::int64_t created_ms = 0;
  std::int64_t dropped = 0;  // deliveries that gave place to newer ones
};

struct DeliveryRow {
  std::int64_t number = 0, webhook = 0;
  std::string id;                 // d_…
  std::string event;              // alert_raised, alert_cleared, digest or test
  std::string content;            // a JSON object
  std::string state = "waiting";  // or delivered, failed
  std::int64_t created_ms = 0, due_ms = 0;
  std::int64_t tries = 0;
  std::optional<std::int64_t> tried_ms;  // the last try; then its outcome:
  int status = 0;                        // of HTTP; 0: no answer
  std::string detail;                    // why it was not taken
};

/// A delivery that can be tried now, and where it goes.
struct DueDelivery {
  DeliveryRow delivery;
  WebhookRow webhook;
};

/// Oldest first.
std::vector<WebhookRow> list_webhooks(Database& database);
std::optional<WebhookRow> find_webhook(Database& database, std::string_view id);
void add_webhook(Database& database, const WebhookRow& webhook);
/// Stores everything but number, id, created_… and dropped. Waiting deliveries are due at once: the address may be
/// another.
void replace_webhook(Database& database, const WebhookRow& webhook);
/// Stores the time of a webhook's last digest.
void mark_digest(Database& database, std::int64_t webhook, std::int64_t now_ms);
/// Also removes its deliveries. Returns false if the id is unknown.
bool remove_webhook(Database& database, std::string_view id);

/// Max deliveries of a webhook that wait, and that are kept for reading once they were delivered or given up.
inline constexpr std::int64_t max_waiting = 1000, max_settled = 100;

/// Stores a new delivery. Where max_waiting of the webhook wait, the oldest of them is removed and counted as dropped.
void queue_delivery(Database& database, const DeliveryRow& delivery);
/// Stores the outcome of a try: state, due_ms, tries, tried_ms, status and detail. Removes the webhook's oldest
/// deliveries beyond max_settled.
void store_try(Database& database, const DeliveryRow& delivery);

/// The oldest waiting delivery of each enabled webhook, if it is due, and all tests that are due. A due time after
/// `latest_ms` counts as due: the clock was set back.
std::vector<DueDelivery> due_deliveries(Database& database, std::int64_t now_ms, std::int64_t latest_ms);
/// When the next of those is due; nothing if none waits.
std::optional<std::int64_t> next_due_ms(Database& database);
std::int64_t count_waiting(Database& database, std::int64_t webhook);
/// Deliveries with a number below `before` (0: all), newest first.
std::vector<DeliveryRow> list_deliveries(Database& database, std::int64_t webhook, std::int64_t before,
                                         std::int64_t limit);

}  // namespace babelring::store
