#include "server/http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string_view>

namespace babelring::http {
namespace {

constexpr std::string_view default_policy =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n";
constexpr std::string_view always =
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n";

/// Some values quote untrusted manifests: no value may start a new line.
void add_field(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  const std::size_t start = head.size();
  head.append(value).append("\r\n");
  for (std::size_t i = start; i < start + value.size(); ++i) {
    if (static_cast<unsigned char>(head[i]) < 0x20 || head[i] == 0x7f) head[i] = '_';
  }
}

/// The Date header, refreshed once per second.
const std::string& date_line() {
  thread_local std::string line;
  thread_local std::time_t made = -1;
  const std::time_t now = std::time(nullptr);
  if (now != made) line = fmt::format("Date: {:%a, %d %b %Y %H:%M:%S GMT}\r\n", fmt::gmtime(now));
  made = now;
  return line;
}

}  // namespace

std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id) {
  std::string head;
  head.reserve(1024);
  head.append("HTTP/1.1 ").append(fmt::format_int(response.status).c_str()).append(" ");
  head.append(reason_of(response.status)).append("\r\n").append(date_line());
  for (const auto& [name, value] : response.headers) add_field(head, name, value);
  if (framing.length) add_field(head, "Content-Length", fmt::format_int(*framing.length).c_str());
  if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (framing.close) head += "Connection: close\r\n";
  if (framing.strict_transport) head += "Strict-Transport-Security: max-age=31536000\r\n";
  if (!request_id.empty()) add_field(head, "X-Request-Id", request_id);
  if (response.header("Content-Security-Policy").empty()) head.append(default_policy);
  return head.append(always).append("\r\n");
}

}  // namespace babelring::http
