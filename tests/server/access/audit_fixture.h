#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {

inline json::value json_of(const testing::Answer& answer) {
  return parse_json(answer.body).value();
}

/// A server and its audit log.
class AuditTest : public ::testing::Test {
 protected:
  json::array audit(const std::string& query = "") {
    return json_of(testing::Client(server.port()).get("/api/v1/audit" + query)).at("items").as_array();
  }
  /// Refusals are recorded shortly after the response. `requests` is the sum of the rows' counts if repeats are joined.
  json::array audit_of(std::size_t rows, std::int64_t requests = 0) {
    json::array found;
    soon([&] {
      found = audit();
      std::int64_t counted = 0;
      for (const auto& row : found) counted += row.at("count").as_int64();
      return found.size() >= rows && counted >= requests;
    });
    EXPECT_EQ(found.size(), rows);
    return found;
  }
  testing::TestServer server;
};

}  // namespace babelring
