#include "server/http/message.h"

#include <algorithm>
#include <array>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

namespace babelring::http {

std::string_view RequestMessage::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string_view() : found->second;
}

std::optional<std::string> RequestMessage::query_value(const std::string& name) const {
  const auto found = query.find(name);
  if (found == query.end()) return std::nullopt;
  return found->second;
}

bool writes(const RequestMessage& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

Status parse_target(RequestMessage& request) {
  const auto url = boost::urls::parse_origin_form(request.target);
  if (!url) return Error{"request target is not a path with an optional query"};
  for (const auto& segment : url->segments()) {
    std::string text(segment.begin(), segment.end());
    if (text == "." || text == "..") return Error{"request path has a '.' or '..' segment"};
    if (text.find('\0') != std::string::npos) return Error{"request path has a NUL byte"};
    request.segments.push_back(std::move(text));
  }
  for (const auto& parameter : url->params()) {
    std::string value = parameter.has_value ? std::string(parameter.value) : std::string();
    request.query.insert_or_assign(std::string(parameter.key), std::move(value));
  }
  return {};
}

std::string_view Response::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& entry) { return entry.first == name; });
  return found == headers.end() ? std::string_view() : found->second;
}

Response text_response(int status, std::string content_type, std::string body) {
  Response response;
  response.status = status;
  response.set("Content-Type", std::move(content_type));
  response.body = std::move(body);
  return response;
}

namespace {

constexpr std::array<std::pair<int, std::string_view>, 30> reasons = {{
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
}};

}  // namespace

std::string_view reason_of(int status) {
  const auto* found =
      std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) { return reason.first == status; });
  return found == reasons.end() ? "Status" : found->second;
}

namespace {

std::int64_t length_of(const std::variant<std::string, FileSlice>& part) {
  const auto* text = std::get_if<std::string>(&part);
  return text != nullptr ? static_cast<std::int64_t>(text->size()) : std::get<FileSlice>(part).length;
}

/// The part's `length` bytes starting at `first`.
void cut_part(std::variant<std::string, FileSlice>& part, std::int64_t first, std::int64_t length) {
  if (auto* text = std::get_if<std::string>(&part)) {
    *text = text->substr(static_cast<std::size_t>(first), static_cast<std::size_t>(length));
    return;
  }
  auto& slice = std::get<FileSlice>(part);
  slice.offset += first;
  slice.length = length;
}

}  // namespace

std::int64_t CompositeBody::length() const {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += length_of(part);
  return sum;
}

void CompositeBody::cut(std::int64_t first, std::int64_t length) {
  std::vector<std::variant<std::string, FileSlice>> kept;
  for (std::int64_t begin = 0; auto& part : parts) {
    const std::int64_t end = begin + length_of(part);
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + length);
    if (from < to) {
      cut_part(part, from - begin, to - from);
      kept.push_back(std::move(part));
    }
    begin = end;
  }
  parts = std::move(kept);
}

}  // namespace babelring::http
