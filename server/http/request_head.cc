#include "server/http/request_head.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <charconv>

#include "base/names.h"
#include "base/records/records.h"
#include "server/http/fields.h"

namespace babelring::http {
namespace {

constexpr std::array<std::string_view, 7> methods = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

bool is_token(std::string_view text) {
  constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || others.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
}

bool equal_ignoring_case(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](unsigned char x, char y) { return std::tolower(x) == y; });
}

/// True if the name in a Host field is followed by nothing, a colon, or a colon and a port number.
bool has_sound_port(std::string_view host) {
  const auto bracket = host.rfind(']'), colon = host.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) return true;
  const std::string_view port = host.substr(colon + 1);
  unsigned number = 0;
  for (const char c : port) {
    if (c < '0' || c > '9' || (number = number * 10 + static_cast<unsigned>(c - '0')) > 65535) return false;
  }
  return true;
}

std::optional<FramingFault> check_request_line(std::string_view line) {
  if (line.size() > max_request_line_bytes) return FramingFault{414, "request line is longer than 4096 bytes"};
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return FramingFault{400, "request line is not 'METHOD target VERSION'"};
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  if (!is_token(method)) return FramingFault{400, "method is not a token"};
  for (const unsigned char c : target) {
    if (c <= 0x20 || c >= 0x7f) return FramingFault{400, "request target has a byte that must be percent-encoded"};
  }
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return version.starts_with("HTTP/") ? FramingFault{505, "only HTTP/1.1 and HTTP/1.0 are spoken"}
                                        : FramingFault{400, "request line does not end in an HTTP version"};
  }
  if (std::find(methods.begin(), methods.end(), method) == methods.end()) {
    return FramingFault{501, "method is not known"};
  }
  if (target.empty() || target.front() != '/') return FramingFault{400, "request target does not start with '/'"};
  return std::nullopt;
}

/// Checks the syntax of each header line, and counts the fields that determine the message length.
class FieldCheck {
 public:
  std::optional<FramingFault> line(std::string_view line) {
    if (++fields_ > max_header_fields) return FramingFault{431, "more than 64 header fields"};
    if (line.front() == ' ' || line.front() == '\t') return FramingFault{400, "folded header line"};
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return FramingFault{400, "header line is not 'name: value'"};
    }
    std::string_view value = line.substr(colon + 1);
    for (const unsigned char c : value) {
      if ((c < 0x20 && c != '\t') || c == 0x7f) return FramingFault{400, "header value has a control byte"};
    }
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    return field(line.substr(0, colon), value);
  }

  /// `needs_host`: as since HTTP/1.1; probes of load balancers speak 1.0 without it.
  std::optional<FramingFault> end(bool needs_host) const {
    if (hosts_ > 1 || (hosts_ == 0 && needs_host))
      return FramingFault{400, hosts_ == 0 ? "no Host header" : "several Host headers"};
    return std::nullopt;
  }

 private:
  std::optional<FramingFault> field(std::string_view name, std::string_view value) {
    if (equal_ignoring_case(name, "host")) {
      ++hosts_;
      if (!has_sound_port(value)) return FramingFault{400, "the port in Host is not a number up to 65535"};
    }
    if (equal_ignoring_case(name, "transfer-encoding")) {
      return equal_ignoring_case(value, "chunked")
                 ? FramingFault{411, "chunked request bodies are not taken: send Content-Length"}
                 : FramingFault{501, "Transfer-Encoding is not taken: send Content-Length"};
    }
    if (equal_ignoring_case(name, "content-length")) {
      if (lengths_++ > 0) return FramingFault{400, "several Content-Length headers"};
      if (!all_digits(value) || value.size() > 18) return FramingFault{400, "Content-Length is not a number"};
    }
    if (equal_ignoring_case(name, "upgrade")) return FramingFault{501, "protocol upgrades are not offered"};
    return std::nullopt;
  }

  std::size_t fields_ = 0;
  int hosts_ = 0, lengths_ = 0;
};

}  // namespace

std::optional<FramingFault> check_framing(std::string_view head) {
  FieldCheck fields;
  bool first = true, old_version = false;
  for (;;) {
    const auto end = head.find_first_of("\r\n");
    if (end == std::string_view::npos || head.substr(end, 2) != "\r\n") return FramingFault{400, "bare CR or LF"};
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (!first && line.empty())
      return head.empty() ? fields.end(!old_version) : FramingFault{400, "bytes after the head"};
    if (auto fault = first ? check_request_line(line) : fields.line(line)) return fault;
    if (first) old_version = line.ends_with(" HTTP/1.0");
    first = false;
  }
}

namespace {

namespace beast = boost::beast;

/// A generated request id: a random prefix per thread and a counter, because drawing random bits takes a microsecond.
std::string own_request_id() {
  thread_local const std::string thread = make_id('q');
  thread_local std::uint64_t count = 0;
  return thread + '-' + std::to_string(++count);
}

/// The client's id if it is safe in logs, otherwise a generated one.
std::string request_id(std::string_view given) {
  const bool good =
      !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
      });
  return good ? std::string(given) : own_request_id();
}

}  // namespace

Result<RequestHead> parse_head(std::string_view text) {
  beast::http::request_parser<beast::http::empty_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(max_request_line_bytes + max_header_bytes));
  parser.body_limit(boost::none);
  beast::error_code code;
  parser.put(boost::asio::buffer(text.data(), text.size()), code);
  if (code || !parser.is_header_done()) return Error{"request head: " + code.message()};

  const auto& message = parser.get();
  RequestHead head;
  head.message.method = std::string(message.method_string());
  head.message.target = std::string(message.target());
  const bool persistent = message.version() >= 11;  // HTTP/1.0 has neither chunked encoding nor 100-continue
  head.message.http_1_0 = !persistent;
  head.takes_interim = persistent;
  head.message.keep_alive = persistent && message.keep_alive();
  for (const auto& field : message) {
    auto [entry, fresh] = head.message.headers.try_emplace(lower(field.name_string()), std::string(field.value()));
    if (!fresh) entry->second += ", " + std::string(field.value());
  }
  const std::string_view length = head.message.header("content-length");
  std::from_chars(length.data(), length.data() + length.size(), head.message.content_length);
  head.expects_continue = persistent && lower(head.message.header("expect")) == "100-continue";
  head.message.id = request_id(head.message.header("x-request-id"));
  if (auto target = parse_target(head.message); !target) return Error{target.error()};
  return head;
}

}  // namespace babelring::http
