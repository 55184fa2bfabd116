// A request head as raw bytes: framing guard, parser, target, router, range, media types. Whatever comes is either
// refused with a status, or understood in one way only.

#include <array>
#include <string_view>

#include "server/http/fields.h"
#include "server/http/request_head.h"
#include "server/http/router.h"
#include "tests/fuzz/expect.h"

namespace {

using namespace babelring;

http::Router make_router() {
  http::Router router;
  const auto handler = [](const http::Request&) { return http::Response(); };
  for (const char* path : {"/healthz", "/api/v1/runs", "/api/v1/runs/{run}", "/api/v1/runs/{run}/metrics/{key}",
                           "/api/v1/checkpoints/{checkpoint}/files/{name}", "/api/v1/alerts/{alert}/ack"}) {
    router.add("GET", path, http::Scope::none, handler);
  }
  return router;
}

void check_target(const http::Request& request) {
  for (const std::string& segment : request.segments) {
    expect(segment != "." && segment != "..", "no segment leads upwards");
    expect(segment.find('\0') == std::string::npos, "no segment has a zero byte");
  }
}

void check_fields(const http::Request& request) {
  constexpr std::int64_t size = 1000;
  const http::RangeRequest range = http::parse_range(request.header("range"), size);
  const bool part = range.kind != http::RangeRequest::Kind::unsatisfiable;
  expect(!part || (range.first >= 0 && range.length > 0 && range.first + range.length <= size),
         "a range lies within the body");
  static const std::array<std::string, 2> types = {"application/json", "text/csv"};
  const auto type = http::accepted_type(request.header("accept"), types);
  expect(!type || *type < types.size(), "an accepted type is one of those offered");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const http::Router router = make_router();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  const std::string_view head = text.substr(0, end + 4);
  if (const auto fault = http::check_framing(head)) {
    expect(fault->status >= 400 && fault->status < 600, "a refusal has a status");
    return 0;
  }
  auto parsed = http::parse_head(head);
  if (!parsed) {
    expect(!parsed.error().empty(), "a refusal has a reason");
    return 0;
  }
  http::Request request(std::move(parsed->message));
  expect(request.content_length >= 0, "a length is not negative");
  const bool old_version = head.substr(0, head.find("\r\n")).ends_with(" HTTP/1.0");
  expect(old_version || request.headers.contains("host"), "a request of HTTP/1.1 has a Host");
  expect(!request.headers.contains("transfer-encoding"), "there is no Transfer-Encoding");
  check_target(request);
  check_fields(request);
  if (router.find(request) != nullptr) {
    for (const auto& [name, value] : request.parameters) expect(!value.empty(), "a parameter has a value");
  }
  return 0;
}
