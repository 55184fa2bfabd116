#include "server/http/request_head.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <charconv>

#include "base/check_name.h"
#include "base/records/records.h"
#include "server/http/field_text.h"
#include "server/http/framing.h"

namespace babelring::http {
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
