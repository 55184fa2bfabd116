#include "client/server_access.h"

#include <fmt/format.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <cstdlib>
#include <system_error>

#include "base/failure.h"
#include "base/files.h"
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

namespace {

namespace fs = std::filesystem;
constexpr const char* usual_address = "http://127.0.0.1:8080";
constexpr std::size_t longest_token = 1024;

/// An environment variable; empty if unset.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  const std::size_t end = text.find_first_of("\r\n", first);
  const std::string line = text.substr(first, end == std::string::npos ? end : end - first);
  return line.substr(0, line.find_last_not_of(" \t") + 1);
}

std::string token_of_file(const fs::path& file) {
  std::string text;
  try {
    text = read_file(file);
  } catch (const Failure& failure) {
    throw UsageFailure(fmt::format("token file: {}", failure.what()));
  }
  std::string token = trimmed(text);
  if (token.empty() || token.size() > longest_token || token.find(' ') != std::string::npos) {
    throw UsageFailure(fmt::format("token file {}: expected one token on its first line", file.string()));
  }
  return token;
}

fs::path usual_token_file() {
  const std::string settings = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (!settings.empty()) return fs::path(settings) / "babelring" / "token";
  return home.empty() ? fs::path() : fs::path(home) / ".config" / "babelring" / "token";
}

}  // namespace

std::string find_token(const fs::path& token_file) {
  if (!token_file.empty()) return token_of_file(token_file);
  if (std::string token = trimmed(variable("BABELRING_TOKEN")); !token.empty()) return token;
  const fs::path usual = usual_token_file();
  std::error_code absent;
  return !usual.empty() && fs::exists(usual, absent) ? token_of_file(usual) : std::string();
}

ServerAccess find_server(const std::string& address, const fs::path& token_file, const fs::path& ca_file) {
  ServerAccess access{.address = address.empty() ? variable("BABELRING_SERVER") : address,
                      .token = find_token(token_file),
                      .ca_file = ca_file.empty() ? fs::path(variable("BABELRING_CA_FILE")) : ca_file};
  if (access.address.empty()) access.address = usual_address;
  return access;
}

HttpClientOptions client_options(const ServerAccess& access, std::chrono::milliseconds timeout) {
  return {.timeout = timeout, .token = access.token, .ca_file = access.ca_file};
}

}  // namespace babelring
