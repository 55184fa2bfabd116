#pragma once

#include <memory>

#include "base/records.h"

namespace babelring {

/// Turns what this process logs, from info up, into log records, so that its log can be read on the server too.
/// Construct it before there are other threads that log; afterwards any thread may.
class LogRecords {
 public:
  /// Listens to spdlog's default logger, to its end.
  LogRecords();

  /// While it lives, what is logged goes to a sink too; not what the sink's own write() logs.
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
