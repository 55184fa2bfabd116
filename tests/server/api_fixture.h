#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring::testing {

/// A server, and short functions for its requests.
class ApiFixture : public ::testing::Test {
 protected:
  json::object object(const Answer& answer) { return parse_json(answer.body).value().as_object(); }
  json::object get(const std::string& path) { return object(Client(server.port()).get(path)); }
  Answer post(const std::vector<Record>& records) {
    return Client(server.port()).post(records_path(), batch_text(records));
  }
  std::string run_path(const std::string& rest = "") { return "/api/v1/runs/" + run_id + rest; }
  TestServer server;
};

}  // namespace babelring::testing
