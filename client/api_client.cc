#include "client/api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cctype>
#include <thread>

#include "base/json.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::size_t quoted_bytes = 100;   // max bytes quoted from a body other than problem+json
constexpr std::size_t member_bytes = 1000;  // max bytes of each problem+json member
constexpr std::size_t max_faults_told = 3;

std::string text_of(const json::object& object, std::string_view name) {
  return printable(get_text(object, name).substr(0, member_bytes));
}

std::vector<Problem::Fault> faults_of(const json::object& problem) {
  std::vector<Problem::Fault> faults;
  const json::value* member = problem.if_contains("errors");
  if (member == nullptr || !member->is_array()) return faults;
  for (const json::value& entry : member->get_array()) {
    if (!entry.is_object()) continue;
    const std::int64_t line = get_integer(entry.get_object(), "line");
    Problem::Fault fault{.place = text_of(entry.get_object(), "pointer"),
                         .detail = text_of(entry.get_object(), "detail")};
    if (line > 0) fault.place += fmt::format("{}line {}", fault.place.empty() ? "" : ", ", line);
    faults.push_back(std::move(fault));
  }
  return faults;
}

/// The title of an HTML page; empty without one.
std::string page_title(std::string_view body) {
  const auto is_same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto find = [&](std::string_view text, std::size_t from) {
    const auto at =
        std::search(body.begin() + static_cast<std::ptrdiff_t>(from), body.end(), text.begin(), text.end(), is_same);
    return at == body.end() ? std::string_view::npos : static_cast<std::size_t>(at - body.begin());
  };
  const std::size_t open = find("<title", 0);
  const std::size_t begin = open == std::string_view::npos ? open : body.find('>', open);
  if (begin == std::string_view::npos) return "";
  const std::size_t end = find("</title", begin);
  return end == std::string_view::npos ? "" : std::string(body.substr(begin + 1, end - begin - 1));
}

/// The detail for an answer that is no problem+json.
std::string describe_other(const HttpResponse& answer) {
  if (const std::string_view location = answer.header("location"); answer.status / 100 == 3 && !location.empty()) {
    return "moved to " + printable(location.substr(0, member_bytes));
  }
  if (const std::string title = page_title(answer.body); !title.empty()) {
    return fmt::format("a page titled '{}'", printable(std::string_view(title).substr(0, quoted_bytes)));
  }
  return printable(std::string_view(answer.body).substr(0, quoted_bytes));
}

}  // namespace

Problem read_problem(const HttpResponse& answer) {
  Problem problem{.status = answer.status, .code = {}, .title = {}, .detail = {}, .faults = {}};
  if (const auto body = parse_json(answer.body); body.ok() && body->is_object()) {
    const json::object& object = body->get_object();
    problem.code = text_of(object, "code");
    problem.title = text_of(object, "title");
    problem.detail = text_of(object, "detail");
    problem.faults = faults_of(object);
  }
  if (problem.title.empty() && problem.detail.empty()) {
    problem.detail = describe_other(answer);
  }
  return problem;
}

bool is_final(int status) {
  return status / 100 == 4 && status != 408 && status != 429;
}

std::string describe(const Problem& problem) {
  std::string text = problem.detail.empty() ? problem.title : problem.detail;
  std::size_t told = 0;
  for (const Problem::Fault& fault : problem.faults) {
    if (told++ == max_faults_told) break;
    const bool known = !fault.detail.empty() && fault.detail == problem.detail;
    if (!known && !fault.detail.empty() && problem.detail.ends_with(": " + fault.detail))
      continue;  // the detail already contains it
    if (known) {
      if (!fault.place.empty()) text += fmt::format(" ({})", fault.place);
      continue;
    }
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", fault.place,
                        fault.place.empty() || fault.detail.empty() ? "" : ": ", fault.detail);
  }
  return fmt::format("server says {}{}{}", problem.status, text.empty() ? "" : ": ", text);
}

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

ApiClient::Tagged ApiClient::get_tagged(const std::string& target) {
  const HttpRequest request{.target = base + target};
  const HttpResponse answer = send_with_retries(request, true);
  return {object_of(http_, request, answer), std::string(answer.header("etag"))};
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
                             const std::string& key, const std::vector<std::pair<std::string, std::string>>& headers) {
  HttpRequest request{.method = method, .target = base + target, .headers = headers};
  const bool may_lack_body = method == "DELETE" || method == "PUT";
  if (!may_lack_body || !body.empty()) request.body = to_text(body);
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
