#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/store/alerts.h"
#include "server/store/webhooks.h"

/// Webhooks: addresses that are told of alerts over HTTP.
namespace babelring::webhooks {

/// The forms of a message.
inline constexpr std::array<std::string_view, 4> kind_names = {"json", "slack", "mattermost", "ntfy"};

/// The parts of a webhook's URL.
struct Address {
  std::string origin;  // http://host:port
  std::string target;  // path and query
};

/// The Error says what was found and expected. Accepts http and https, without user, password and fragment, and for
/// ntfy only with a topic as the last part of the path.
Result<Address> parse_address(std::string_view url, std::string_view kind);

/// Whether the webhook's filters `runs` and `labels` take a run with these labels (a JSON object as text).
bool wants_run(const store::WebhookRow& webhook, const std::string& run, const std::string& labels);
/// A delivery to be queued of `content`, which has `event`, `time`, `title`, `text`, `alert` and `run`.
store::DeliveryRow make_delivery(const store::WebhookRow& webhook, const json::object& content, std::int64_t now_ms);

/// Adds a delivery of the alert for each webhook that tells at once and wants it; `is_event`: its kind tells of an
/// event, whose end is no news. Call within the transaction that stores the alert. Returns whether there is any.
bool queue_alert(store::Database& database, const store::AlertRow& alert, bool is_event);
/// Adds a test, and returns it.
store::DeliveryRow queue_test(store::Database& database, const store::WebhookRow& webhook, std::int64_t now_ms);

/// A request that delivers a message.
struct Message {
  Address address;
  std::string body;  // JSON
  std::vector<std::pair<std::string, std::string>> headers;
};

/// The request for a delivery. `page`: address of the dashboard for links, where the webhook names none. Each try of a
/// delivery makes the same one.
///
/// Headers: X-Babelring-Delivery (the same for each try, so that receivers can drop repeats), X-Babelring-Event, and
/// with a secret X-Babelring-Signature: "sha256=" and the HMAC-SHA-256 of the body in hexadecimal digits.
///
/// json: the content with id, webhook and link. slack, mattermost: {"text"}. ntfy: published as JSON at the server's
/// root, as headers cannot carry every name. Throws Failure if the stored URL is invalid.
Message message_of(const store::DeliveryRow& delivery, const store::WebhookRow& webhook, const std::string& page);

}  // namespace babelring::webhooks
