#pragma once

#include <cstdint>
#include <optional>

#include "server/store/readers.h"

/// Requests for timelines of running runs. All functions throw SqlFailure.
namespace babelring::store {

struct TraceRequestRow {
  std::int64_t number = 0;  // from 1 in each attempt; 0: none
  std::int64_t updates = 0;
  bool ops = true;
};

/// The newest request to the run's current attempt; number 0 if there is none.
TraceRequestRow find_trace_request(Reader& reader, std::int64_t run);

/// Requests a trace of `updates` updates from the current attempt. `done`: the newest request that the attempt has
/// executed. Returns the number of the request, or nothing if an earlier one is not executed yet.
std::optional<std::int64_t> request_trace(Database& database, std::int64_t run, const TraceRequestRow& request,
                                          std::int64_t done);

}  // namespace babelring::store
