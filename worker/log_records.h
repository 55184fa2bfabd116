#pragma once

#include <memory>

#include "base/records/records.h"

namespace babelring {

/// Copies log lines of this process, from level info, to log records, so that the server shows them. Construct it
/// before other threads log.
class LogRecords {
 public:
  /// Adds a sink to spdlog's default logger. It is never removed.
  LogRecords();

  /// While it exists, log lines are also written to `records`, except those logged by records.write() itself.
  class Connection {
   public:
    Connection(LogRecords& log, RecordSink& records);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

   private:
    LogRecords& log_;
  };

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
};

}  // namespace babelring
