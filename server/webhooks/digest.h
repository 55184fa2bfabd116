#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/store/readers.h"
#include "server/store/webhooks.h"

namespace babelring::webhooks {

/// Whether the text is a time of day: 00:00 to 23:59.
bool is_time_of_day(std::string_view text);

/// The first time after `after_ms` (ms since 1970) at which this machine's clocks show `time_of_day`.
std::int64_t next_time_of_day(const std::string& time_of_day, std::int64_t after_ms);

/// When the webhook's next digest is due; nothing without a digest, or if the webhook is off.
std::optional<std::int64_t> next_digest_ms(const store::WebhookRow& webhook);

/// The digest of the webhook's runs since its last one: those that ended with their cause and best values, those that
/// run, and open alerts, of 20 runs each. Archived runs are left out.
store::DeliveryRow make_digest(store::Reader& reader, const store::WebhookRow& webhook, std::int64_t now_ms);

}  // namespace babelring::webhooks
