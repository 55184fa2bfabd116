#include "lab/timeline/trace_content.h"

#include <cmath>

namespace babelring {

namespace {

constexpr std::size_t max_listed_ranks = 1000;  // more would not fit into a record

/// To the us, which keeps the text short.
double whole_us(double ms) {
  return std::round(ms * 1e3) / 1e3;
}

}  // namespace

json::object trace_content(const TraceFacts& facts, std::span<const RankEvents> ranks) {
  json::array list;
  if (ranks.size() > max_listed_ranks) ranks = {};
  for (const RankEvents& one : ranks) {
    list.push_back({{"rank", one.rank},
                    {"host", one.host},
                    {"total_ms", whole_us(one.shares.total_ms)},
                    {"compute_ms", whole_us(one.shares.compute_ms)},
                    {"exposed_ms", whole_us(one.shares.exposed_ms)},
                    {"hidden_ms", whole_us(one.shares.hidden_ms)},
                    {"data_ms", whole_us(one.shares.data_ms)},
                    {"other_ms", whole_us(one.shares.other_ms)}});
  }
  return {{"first_update", facts.first_update},
          {"updates", facts.updates},
          {"ops", facts.ops},
          {"request", facts.request},
          {"ranks", std::move(list)}};
}

}  // namespace babelring
