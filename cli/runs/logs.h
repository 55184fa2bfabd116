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
  std::int64_t tail = 200;  // the newest so many
  bool follow = false;      // then what comes, over restarts of the server, until the run ends or Ctrl-C
  std::chrono::milliseconds between_questions{1000};  // where there is no event stream
};

/// `nmt run logs`: a line each, or the server's item as a JSON line.
void print_logs(const ServerAccess& access, const LogRequest& request, bool as_json, const Screen& screen);

}  // namespace babelring
