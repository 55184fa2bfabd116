#include "server/reload.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "server/http/tls.h"
#include "server/store/data_folder.h"
#include "server/store/home.h"
#include "server/store/sqlite.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string check_profiles(const ServerOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, profile] : read_profiles_of(options)) names.push_back(name);
  return fmt::format("profiles: {}", fmt::join(names, ", "));
}

std::string check_certificate(const ServerOptions& options) {
  if (options.tls_certificate.empty()) return "certificate: none; the server uses plain HTTP";
  const auto context = http::make_tls_context(options.tls_certificate, options.tls_key);
  const std::string warning = http::certificate_warning(*context);
  if (!warning.empty()) std::cout << "warning " << warning << '\n';
  return fmt::format("certificate: {}", http::describe_certificate(*context));
}

std::string check_roots(const ServerOptions& options) {
  return fmt::format("checkpoint folders: {}", options.canonical_roots(options.data).size());
}

/// Checks that the closest existing parent of a missing data folder is writable.
std::string check_missing_folder(const fs::path& folder) {
  store::refuse_network_disk(folder);
  const fs::path above = existing_folder(folder);
  if (::access(above.c_str(), W_OK | X_OK) != 0) {
    fail("data folder {}: cannot be created, {} is not writable", folder.string(), above.string());
  }
  return fmt::format("data folder: {} will be created", folder.string());
}

std::string check_data(const ServerOptions& options) {
  if (!fs::exists(options.data)) return check_missing_folder(options.data);
  try {
    const store::DataFolder folder(options.data);
    folder.require_database(options.new_database);
    if (!folder.has_database())
      return fmt::format("data folder: {}, a new database will be created", options.data.string());
    store::Database database(folder.database(), store::Database::Mode::reader);
    const int schema = std::stoi(database.scalar("PRAGMA user_version"));
    if (schema > store::schema_version) {
      fail("{}: schema {}, this program supports up to {}: use the newer program that wrote it",
           folder.database().string(), schema, store::schema_version);
    }
    return fmt::format("data folder: {}, schema {}{}", options.data.string(), schema,
                       schema < store::schema_version ? ", will be migrated" : "");
  } catch (const store::FolderInUse&) {
    return fmt::format("data folder: {}, in use by a running server", options.data.string());
  }
}

}  // namespace

int check_start(const ServerOptions& options) {
  bool ok = true;
  for (const auto& check : {check_profiles, check_certificate, check_roots, check_data}) {
    try {
      const std::string result = check(options);
      std::cout << "ok      " << result << '\n';
    } catch (const std::exception& failure) {
      ok = false;
      std::cout << "failed  " << printable(failure.what()) << '\n';
    }
  }
  for (const std::string& danger : options.security_warnings()) std::cout << "warning " << danger << '\n';
  return ok ? 0 : 1;
}

namespace {

constexpr std::array<std::string_view, 6> reloaded = {"allow-host", "allow-origin", "log-level",
                                                      "profiles",   "tls-cert",     "tls-key"};

/// Reloads one part, and logs its summary or its error.
template <class Part>
void attempt(const char* name, Part part) {
  try {
    if (const std::string summary = part(); !summary.empty()) spdlog::info("reload: {}", summary);
  } catch (const std::exception& failure) {
    spdlog::error("reload: {}; keeping the current {}", printable(failure.what()), name);
  }
}

std::string text_of(const std::map<std::string, std::string>& given, const std::string& name) {
  const auto found = given.find(name);
  return found == given.end() ? "" : found->second;
}

/// Warns about changed options that take effect only after a restart.
void warn_about_restart(const ServerOptions& used, const ServerOptions& read) {
  auto names = used.given;
  names.insert(read.given.begin(), read.given.end());
  for (const auto& [name, ignored] : names) {
    const bool tls = name.starts_with("tls-") && used.tls_certificate.empty() != read.tls_certificate.empty();
    if (!tls && std::find(reloaded.begin(), reloaded.end(), name) != reloaded.end()) continue;
    const std::string before = text_of(used.given, name), now = text_of(read.given, name);
    if (before == now) continue;
    spdlog::warn("reload: --{}: '{}' needs a restart; still using '{}'", name, printable(now), printable(before));
  }
}

/// For example "new: a, b; changed: c; removed: d", or "unchanged".
std::string differences(const launch::Profiles& before, const launch::Profiles& now) {
  std::vector<std::string> added, changed, removed, parts;
  for (const auto& [name, profile] : now) {
    const auto old = before.find(name);
    if (old == before.end()) added.push_back(name);
    if (old != before.end() && old->second != profile) changed.push_back(name);
  }
  for (const auto& [name, profile] : before) {
    if (!now.contains(name)) removed.push_back(name);
  }
  if (!added.empty()) parts.push_back(fmt::format("new: {}", fmt::join(added, ", ")));
  if (!changed.empty()) parts.push_back(fmt::format("changed: {}", fmt::join(changed, ", ")));
  if (!removed.empty()) parts.push_back(fmt::format("removed: {}", fmt::join(removed, ", ")));
  return parts.empty() ? "unchanged" : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

launch::Profiles read_profiles_of(const ServerOptions& options) {
  if (options.profiles_file.empty()) return launch::builtin_profiles();
  return launch::read_profiles(read_file(options.profiles_file), options.profiles_file.string());
}

Reload::Reload(ServerOptions options, std::function<std::optional<ServerOptions>()> read_options, http::Server& server,
               launch::ControlPlane& control, http::AccessLog& access_log)
    : options_(std::move(options)),
      read_options_(std::move(read_options)),
      server_(server),
      control_(control),
      access_log_(access_log) {}

void Reload::run() {
  spdlog::info("SIGHUP: reloading");
  attempt("options", [&] { return reload_options(); });
  attempt("certificate", [&] { return reload_certificate(); });
  attempt("profiles", [&] { return reload_profiles(); });
  access_log_.reopen();
}

std::string Reload::reload_options() {
  const auto read = read_options_();
  if (!read) return "";
  set_log_level(read->log_level);
  server_.allow({read->hosts, read->origins});
  options_.log_level = read->log_level;
  options_.profiles_file = read->profiles_file;
  if (options_.tls_certificate.empty() == read->tls_certificate.empty()) {
    options_.tls_certificate = read->tls_certificate;
    options_.tls_key = read->tls_key;
  }
  warn_about_restart(options_, *read);
  if (read->options_file.empty()) return "";
  return fmt::format("options {}: log level {}; hosts {}; origins {}", read->options_file.string(), read->log_level,
                     fmt::join(read->hosts, ", "),
                     read->origins.empty() ? "none" : fmt::format("{}", fmt::join(read->origins, ", ")));
}

std::string Reload::reload_certificate() {
  if (options_.tls_certificate.empty()) return "";
  return fmt::format("certificate {}: {}", options_.tls_certificate.string(),
                     server_.use_certificate(options_.tls_certificate, options_.tls_key));
}

std::string Reload::reload_profiles() {
  const auto before = control_.profiles();
  control_.use_profiles(read_profiles_of(options_));
  if (options_.profiles_file.empty()) return "";
  return fmt::format("profiles {}: {}", options_.profiles_file.string(), differences(*before, *control_.profiles()));
}

}  // namespace babelring
