#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/readers.h"
#include "server/store/steps.h"

namespace babelring::store {

struct RankRow {
  std::int64_t rank = 0, attempt = 0, pid = 0, first_update = 0, last_update = 0, updated_ms = 0;
  std::int64_t records = 0, missing = 0;
  std::string host, device;
  LastStep last;

  bool on_gpu() const { return device.find("cuda") != std::string::npos || device.find("NVIDIA") != std::string::npos; }
};

/// Ranks of an attempt in ascending order, starting with rank `first`; at most `limit` (-1: all).
std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first = 0,
                                std::int64_t limit = -1);

}  // namespace babelring::store
