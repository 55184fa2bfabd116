#include "server/check.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/network_disk.h"
#include "server/http/tls.h"
#include "server/reload.h"
#include "server/store/data_folder.h"
#include "server/store/schema.h"
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
  if (access(above.c_str(), W_OK | X_OK) != 0) {
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

}  // namespace babelring
