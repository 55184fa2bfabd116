#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/http/access_log.h"
#include "server/http/server.h"
#include "server/launch/control_plane.h"
#include "server/server_options.h"

namespace babelring {

/// The profiles that the options name, or the built-in ones. Throws UsageFailure with file, line and column, or Failure
/// if the file cannot be read.
launch::Profiles read_profiles_of(const ServerOptions& options);

/// What the server reads again at SIGHUP: its options, of which the log level and the names of hosts and origins apply
/// at once, its certificate and its profiles; the access log's file is opened anew. What is wrong is left as it was.
/// The log says what was read, and why not. One thread.
class Reload {
 public:
  /// `read_options` gives the options of a start with the same command line. References must outlive it.
  Reload(ServerOptions options, std::function<std::optional<ServerOptions>()> read_options, http::Server& server,
         launch::ControlPlane& control, http::AccessLog& access_log);

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
