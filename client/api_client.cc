#include "client/api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <thread>

#include "base/log.h"
#include "client/problem.h"

namespace babelring {
namespace {

constexpr const char* base = "/api/v1";
constexpr int max_tries = 4;
constexpr std::chrono::seconds longest_wait{5};

json::object object_of(const HttpClient& http, const HttpRequest& request, const HttpResponse& answer) {
  auto body = parse_json(answer.body);
  if (body.ok() && body->is_object()) return std::move(body->get_object());
  fail("{}: {} {}: expected a JSON object, found '{}'", http.address(), request.method, request.target,
       printable(std::string_view(answer.body).substr(0, 100)));
}

/// Advice if no server listens at the address; otherwise "".
const char* hint(const std::string& failure) {
  return failure.ends_with("Connection refused")
             ? "; no server listens there: start `server`, or set another address with --server or BABELRING_SERVER"
             : "";
}

}  // namespace

ApiClient::ApiClient(const ServerAccess& access, std::chrono::milliseconds timeout)
    : access_(access), http_(access.address, client_options(access, timeout)) {}

HttpResponse ApiClient::send_with_retries(const HttpRequest& request, bool repeatable) {
  for (int tried = 1;; ++tried) {
    const Result<HttpResponse> answer = http_.send(request);
    if (answer.ok() && answer->success()) return *answer;
    const bool busy = answer.ok() && (answer->status == 429 || answer->status == 503 || answer->status == 409);
    // 409 is final unless it has Retry-After: then an earlier request with the same key is still in progress.
    const bool again =
        !answer.ok() || (busy && answer->retry_after.value_or(longest_wait + longest_wait) <= longest_wait);
    if (!repeatable || !again || tried == max_tries || http_.cancelled()) {
      if (!answer.ok()) fail("{}{}", answer.error(), hint(answer.error()));
      Problem problem = read_problem(*answer);
      if (problem.status == 401 && access_.token.empty()) {
        problem.detail = "a token is required: use --token-file, BABELRING_TOKEN or ~/.config/babelring/token";
      }
      throw ServerRefusal(std::move(problem));
    }
    const auto asked = answer.ok() ? answer->retry_after.value_or(std::chrono::seconds(0)) : std::chrono::seconds(0);
    std::this_thread::sleep_for(std::max<std::chrono::milliseconds>(asked, std::chrono::milliseconds(100 << tried)));
  }
}

json::object ApiClient::get(const std::string& target) {
  const HttpRequest request{.target = base + target};
  return object_of(http_, request, send_with_retries(request, true));
}

std::string ApiClient::get_text(const std::string& target) {
  return send_with_retries({.target = base + target}, true).body;
}

std::vector<json::object> ApiClient::get_items(const std::string& target, std::size_t max) {
  std::vector<json::object> items;
  const char* joint = target.find('?') == std::string::npos ? "?" : "&";
  std::string cursor;
  do {
    const std::size_t limit = std::clamp<std::size_t>(max - items.size(), 1, 500);
    const std::string part = cursor.empty() ? "" : "&cursor=" + percent_encoded(cursor);
    json::object page = get(fmt::format("{}{}limit={}{}", target, joint, limit, part));
    for (json::value& item : page.at("items").as_array()) {
      if (items.size() < max) items.push_back(std::move(item.as_object()));
    }
    const json::value& next = page.at("next_cursor");
    cursor = next.is_string() ? std::string(next.get_string()) : std::string();
  } while (!cursor.empty() && items.size() < max);
  return items;
}

json::object ApiClient::send(const std::string& method, const std::string& target, const json::object& body,
                             const std::string& key) {
  HttpRequest request{.method = method, .target = base + target};
  if (method != "DELETE" || !body.empty()) request.body = to_text(body);
  if (!key.empty()) request.headers.emplace_back("Idempotency-Key", key);
  const HttpResponse answer = send_with_retries(request, !key.empty());
  return answer.body.empty() ? json::object() : object_of(http_, request, answer);
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view plain = "-._~";
  std::string encoded;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || plain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace babelring
