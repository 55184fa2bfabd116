#pragma once

#include <cstdint>
#include <string>

namespace babelring {

/// The run, attempt and rank that a record or a heartbeat comes from.
struct RankIdentity {
  std::string run;  // r_…
  std::int64_t attempt = 1;
  std::int64_t rank = 0;
  std::string host;
};

}  // namespace babelring
