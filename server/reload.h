#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/http/access_log.h"
#include "server/http/server.h"
#include "server/launch/control_plane.h"
#include "server/server_options.h"

namespace babelring {

/// Implements --check. Checks profiles, certificate, checkpoint roots and data folder, and prints one line for each to
/// standard output. Returns the exit code: 0 if the server would start, otherwise 1. Starts nothing and creates no
/// files.
int check_start(const ServerOptions& options);

/// Reads the --profiles file, or returns the built-in profiles if there is none. Throws UsageFailure with file, line
/// and column, or Failure if the file cannot be read.
launch::Profiles read_profiles_of(const ServerOptions& options);

/// Reloads the server's configuration on SIGHUP. Applies the log level, the allowed hosts and origins, the certificate
/// and the profiles, and reopens the access log. A part that fails to load keeps its current state. Results and errors
/// are logged. Not thread-safe.
class Reload {
 public:
  /// `options` are those in use. `read_options` parses the command line and the options file again. All references must
  /// outlive this object.
  Reload(ServerOptions options, std::function<std::optional<ServerOptions>()> read_options, http::Server& server,
         launch::ControlPlane& control, http::AccessLog& access_log);

  /// Reloads everything once. Does not throw for invalid files.
  void run();

 private:
  std::string reload_options();
  std::string reload_certificate();
  std::string reload_profiles();

  ServerOptions options_;  // in use
  std::function<std::optional<ServerOptions>()> read_options_;
  http::Server& server_;
  launch::ControlPlane& control_;
  http::AccessLog& access_log_;
};

}  // namespace babelring
