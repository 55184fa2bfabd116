#include "server/server_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>

#include "nmt/base/failure.h"
#include "nmt/base/version.h"

namespace babelring {
namespace {

void parse_listen(const std::string& text, ServerOptions& options) {
  const auto colon = text.rfind(':');
  const char* end = text.data() + text.size();
  const bool formed = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                      std::from_chars(text.data() + colon + 1, end, options.port).ptr == end;
  if (!formed) throw UsageFailure(fmt::format("--listen: expected ADDRESS:PORT, found '{}'", text));
  options.address = text.substr(0, colon);
  if (options.address.front() == '[' && options.address.back() == ']') {
    options.address = options.address.substr(1, options.address.size() - 2);
  }
  if (options.address == "localhost") options.address = "127.0.0.1";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string host_of(const std::string& address) {
  return address.find(':') == std::string::npos ? address : '[' + address + ']';
}

}  // namespace

std::optional<ServerOptions> ServerOptions::parse(int argc, char** argv) {
  ServerOptions options;
  std::string listen = "127.0.0.1:8080";
  std::vector<std::string> hosts;
  bool insecure = false, behind_proxy = false;
  CLI::App app("Babelring's server: stores what training runs report, shows it, and hands out checkpoints.", "server");
  app.set_version_flag("--version", version);
  app.add_option("--listen", listen, "ADDRESS:PORT; port 0 picks a free one")->capture_default_str();
  app.add_option("--data", options.data, "folder of the database, made if absent")->capture_default_str();
  app.add_option("--checkpoint-root", options.checkpoint_roots,
                 "hand out checkpoints below this folder too; may be repeated");
  app.add_option("--ui-dir", options.page_folder, "serve the page from this folder instead of the built-in one")
      ->check(CLI::ExistingDirectory);
  app.add_option("--allow-host", hosts, "accept this name in Host headers; may be repeated");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warn or error")->capture_default_str();
  app.add_flag("--insecure", insecure, "listen beyond this machine without encryption or login");
  app.add_flag("--behind-proxy", behind_proxy, "a reverse proxy in front does encryption and login");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {
    app.exit(answered);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageFailure(error.what());
  }
  parse_listen(listen, options);
  if (!is_loopback(options.address) && !insecure && !behind_proxy) {
    throw UsageFailure(
        fmt::format("--listen {}: others could read and write everything; put a reverse proxy in front and "
                    "say --behind-proxy, or say --insecure",
                    listen));
  }
  options.hosts.insert(host_of(options.address));
  for (std::string& host : hosts) {
    std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
    options.hosts.insert(std::move(host));
  }
  return options;
}

}  // namespace babelring
