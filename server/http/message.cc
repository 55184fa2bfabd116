#include "server/http/message.h"

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

namespace babelring::http {

std::string_view Request::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string_view() : found->second;
}

std::optional<std::string> Request::query_value(const std::string& name) const {
  const auto found = query.find(name);
  if (found == query.end()) return std::nullopt;
  return found->second;
}

Result<Done> parse_target(Request& request) {
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
  return Done{};
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

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

}  // namespace babelring::http
