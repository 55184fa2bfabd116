#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/store/runs.h"
#include "server/store/series/series.h"
#include "server/store/store.h"
#include "tests/server/test_server.h"

namespace babelring::store {

using babelring::testing::put;
using babelring::testing::record_of;
using babelring::testing::run_id;
using babelring::testing::step_record;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store.reset();
    store = std::make_unique<Store>(folder.path());
  }
  std::vector<Record> steps(std::int64_t first, std::int64_t last, std::int64_t rank = 0, std::int64_t attempt = 1,
                            std::int64_t first_sequence = 0) {
    std::vector<Record> records;
    for (std::int64_t u = first; u <= last; ++u) {
      const std::int64_t sequence = first_sequence == 0 ? u : first_sequence + u - first;
      records.push_back(step_record(sequence, u, rank, attempt));
    }
    return records;
  }
  Series series(const std::string& key, std::size_t points, std::optional<std::int64_t> rank = 0) {
    auto reader = store->reader();
    const auto run = find_run(*reader, run_id);
    SeriesQuery query;
    query.run = run->number;
    query.world_size = run->world_size;
    query.current_attempt = run->attempt;
    query.key = key;
    query.rank = rank;
    query.points = points;
    return read_series(*reader, query);
  }
  babelring::testing::TemporaryFolder folder;
  std::unique_ptr<Store> store;
};

}  // namespace babelring::store
