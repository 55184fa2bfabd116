#include "client/server_address.h"

#include <fmt/format.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "base/failure.h"
#include "base/log.h"

namespace babelring {

namespace {

const char* default_port(bool encrypted) {
  return encrypted ? "443" : "80";
}

}  // namespace

std::string ServerAddress::authority() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  const bool own_port = port == default_port(encrypted);
  return fmt::format("{}{}{}{}{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", own_port ? "" : ":",
                     own_port ? "" : port);
}

std::string ServerAddress::text() const {
  return fmt::format("{}://{}{}", encrypted ? "https" : "http", authority(), prefix);
}

ServerAddress parse_server_address(std::string_view text) {
  const auto url = boost::urls::parse_uri(text);
  const bool known = url && (url->scheme() == "http" || url->scheme() == "https");
  if (!known || url->encoded_host().empty() || url->has_query() || url->has_fragment() || url->has_userinfo()) {
    throw UsageFailure(
        fmt::format("server: expected http://host:port or https://host:port, found '{}'", printable(text)));
  }
  ServerAddress address{.encrypted = url->scheme() == "https",
                        .host = url->host_address(),
                        .port = url->port(),
                        .prefix = std::string(url->encoded_path())};
  if (address.port.empty()) address.port = default_port(address.encrypted);
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  return address;
}

}  // namespace babelring
