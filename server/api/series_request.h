#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "server/api/answers.h"
#include "server/api/service.h"
#include "server/store/series.h"

namespace babelring::api {

inline constexpr std::int64_t most_points = 20'000, most_raw_points = 1'000'000;

/// What a request for series asks for, in its own words.
struct Asked {
  std::string x;         // step, wall or rel: what from and to mean
  std::string agg;       // minmax, avg, lttb or raw
  bool bounded = false;  // from or to was given
};

/// A query parameter that is one of several words; the first is meant when it is absent. Throws Problem 400.
std::string choice_query(const http::Request& request, const std::string& name,
                         std::initializer_list<std::string_view> allowed);

/// Throws Problem 400.
Asked asked_of(const http::Request& request);

/// A range of a run's steps or times, in the words of `x`; NaN: open. Throws Problem 416 where it is empty by itself.
store::SeriesQuery range_query(const store::RunRow& run, const std::string& x, double from, double to);

/// The range and resolution that are asked for; key and rank are left to the caller. Throws Problem 400 or 416.
store::SeriesQuery query_of(const http::Request& request, const store::RunRow& run, const Asked& asked);

}  // namespace babelring::api
