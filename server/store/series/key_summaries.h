#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/readers.h"

namespace babelring::store {

/// Summary of a key over a whole run, as reported by one rank.
struct KeySummary {
  std::string key;
  std::int64_t count = 0;  // number of finite values
  double first = 0, last = 0, min = 0, max = 0;
  std::int64_t min_step = 0, max_step = 0;
};
/// Summaries of all keys, in order of first appearance. Throws SqlFailure.
std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank);

}  // namespace babelring::store
