#include "server/webhooks/sender.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "client/api_client.h"
#include "client/delivery.h"
#include "server/webhooks/digest.h"
#include "server/webhooks/message.h"

namespace babelring::webhooks {
namespace {

constexpr std::chrono::milliseconds tick{500};
constexpr std::int64_t pause_after_fault_ms = 10'000;
constexpr std::int64_t longest_wait_ms = 60'000;  // the wall clock, by which deliveries are due, may have been set
constexpr std::size_t max_detail_bytes = 300;

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now().time_since_epoch()).count();
}

}  // namespace

Sender::Sender(store::Store& store, SenderOptions options) : store_(store), options_(std::move(options)) {
  // A file that cannot be read is a fault of the start, not of each delivery.
  if (!options_.ca_file.empty()) HttpClient("https://localhost", {.ca_file = options_.ca_file});
}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (client_ != nullptr) client_->cancel();
  }
  thread_.reset();
}

void Sender::start(std::string page) {
  const std::lock_guard lock(mutex_);
  page_ = std::move(page);
  thread_.emplace("webhooks", tick, [this] { work(); });
}

void Sender::wake() {
  next_ms_ = 0;
  const std::lock_guard lock(mutex_);
  if (thread_) thread_->wake();
}

void Sender::work() {
  if (steady_ms() < next_ms_.load()) return;
  std::int64_t mark = steady_ms() + pause_after_fault_ms;  // kept where reading or writing fails
  next_ms_ = mark;
  const std::int64_t next_digest = queue_digests();
  // Each pass has at most one delivery of a webhook, and its next one is due then.
  for (auto due = due_now(); !due.empty(); due = due_now()) {
    for (store::DueDelivery& each : due) {
      {
        const std::lock_guard lock(mutex_);
        if (ending_) return;
      }
      try_delivery(std::move(each));
    }
  }
  auto reader = store_.reader(store::Store::For::own);
  const std::int64_t next_ms = std::min(store::next_due_ms(reader->database).value_or(next_digest), next_digest);
  const std::int64_t wait_ms = std::clamp<std::int64_t>(next_ms - wall_time_ms(), 0, longest_wait_ms);
  next_ms_.compare_exchange_strong(mark, steady_ms() + wait_ms);  // unless wake() was called meanwhile
}

std::vector<store::DueDelivery> Sender::due_now() {
  auto reader = store_.reader(store::Store::For::own);
  const std::int64_t now_ms = wall_time_ms();
  return store::due_deliveries(reader->database, now_ms, now_ms + options_.max_pause.count());
}

std::int64_t Sender::queue_digests() {
  const std::int64_t now_ms = wall_time_ms();
  std::int64_t next_ms = std::numeric_limits<std::int64_t>::max();
  auto reader = store_.reader(store::Store::For::own);
  for (store::WebhookRow& webhook : store::list_webhooks(reader->database)) {
    if (const auto due_ms = next_digest_ms(webhook); due_ms && *due_ms <= now_ms) {
      const store::DeliveryRow digest = make_digest(*reader, webhook, now_ms);
      store_.write([&](store::Database& database) {
        store::queue_delivery(database, digest);
        store::mark_digest(database, webhook.number, now_ms);
      });
      webhook.digest_ms = now_ms;
    }
    next_ms = std::min(next_ms, next_digest_ms(webhook).value_or(next_ms));
  }
  return next_ms;
}

Result<HttpResponse> Sender::send(const store::DueDelivery& due) {
  const Message message = message_of(due.delivery, due.webhook, page_);
  HttpClient client(message.address.origin, {.timeout = options_.timeout, .ca_file = options_.ca_file});
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return Error{"the server ends"};
    client_ = &client;
  }
  const HttpRequest request{
      .method = "POST", .target = message.address.target, .body = message.body, .headers = message.headers};
  // The body of a response that takes the delivery does not matter: it is not read.
  auto answer = client.send(request, [](const HttpResponse&, std::string_view) { return false; });
  const std::lock_guard lock(mutex_);
  client_ = nullptr;
  return answer;
}

void Sender::try_delivery(store::DueDelivery due) {
  const auto answer = send(due);
  {
    const std::lock_guard lock(mutex_);
    if (ending_ && !answer.ok()) return;
  }
  settle(due.delivery, answer);
  if (due.delivery.state == "failed") {
    spdlog::warn("webhook {} ({}): {} is given up: {}", due.webhook.id, printable(due.webhook.name), due.delivery.id,
                 due.delivery.detail);
  }
  store_.write([&](store::Database& database) { store::store_try(database, due.delivery); });
}

void Sender::settle(store::DeliveryRow& delivery, const Result<HttpResponse>& answer) const {
  const std::int64_t now_ms = wall_time_ms();
  ++delivery.tries;
  delivery.tried_ms = now_ms;
  delivery.status = answer.ok() ? answer->status : 0;
  delivery.detail.clear();
  if (answer.ok() && answer->success()) {
    delivery.state = "delivered";
    return;
  }
  const bool redirected = answer.ok() && answer->status / 100 == 3;
  std::string detail = !answer.ok() ? answer.error() : explain(*answer);
  if (redirected) detail += "; redirects are not followed";
  delivery.detail = printable(detail.substr(0, max_detail_bytes));
  const std::int64_t doublings = std::min<std::int64_t>(delivery.tries - 1, 20);
  std::int64_t pause_ms = options_.first_pause.count() << doublings;
  if (answer.ok() && answer->retry_after) {
    pause_ms = std::max<std::int64_t>(pause_ms, std::chrono::milliseconds(*answer->retry_after).count());
  }
  delivery.due_ms = now_ms + std::min<std::int64_t>(pause_ms, options_.max_pause.count());
  const bool refused = redirected || (answer.ok() && is_final(answer->status));
  const bool too_old = delivery.due_ms - delivery.created_ms > options_.give_up.count();
  if (refused || too_old || delivery.event == "test") delivery.state = "failed";
}

}  // namespace babelring::webhooks
