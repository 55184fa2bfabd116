#include "server/http/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iterator>

namespace babelring::http {
namespace {

constexpr std::string_view always =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n";

/// Header values are ours, but some quote a manifest: nothing may start a new line.
std::string one_line(std::string_view value) {
  std::string text(value);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  return text;
}

}  // namespace

std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S GMT}\r\n", response.status,
                                 reason_of(response.status), fmt::gmtime(std::time(nullptr)));
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, one_line(value));
  }
  if (framing.length) fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", *framing.length);
  if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (framing.close) head += "Connection: close\r\n";
  if (!request_id.empty()) fmt::format_to(std::back_inserter(head), "X-Request-Id: {}\r\n", request_id);
  head += always;
  return head += "\r\n";
}

}  // namespace babelring::http
