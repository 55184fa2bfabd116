#include "client/server_access.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "base/atomic_file.h"
#include "base/failure.h"

namespace babelring {
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
