#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/runs/screen.h"
#include "client/server_access.h"

namespace babelring {

struct LogRequest {
  std::string run;  // id
  std::optional<std::int64_t> rank;
  std::string level, text;  // empty: any
  std::int64_t tail = 200;  // number of newest lines
  bool follow = false;      // then print new lines until the run ends or Ctrl-C; survives restarts of the server
  std::chrono::milliseconds poll_interval{1000};  // without an event stream
};

/// `nmt run logs`: prints log lines as text, or the server's items as JSON lines.
void print_logs(const ServerAccess& access, const LogRequest& request, bool as_json, const Screen& screen);

}  // namespace babelring
