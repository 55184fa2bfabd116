#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring::testing {

/// A server with checkpoints that lie below its data folder as a worker leaves them there.
class CheckpointFixture : public ::testing::Test {
 protected:
  /// Writes the files and reports them. `best` also makes the worker's link. Returns the checkpoint's path of the API.
  std::string make(std::int64_t update, double sacrebleu, bool best = false);
  std::filesystem::path folder_of(std::int64_t update) const;
  static std::string weights_of(std::int64_t update);

  Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& headers = "") {
    return Client(server.port()).request(method, path, body, headers);
  }
  json::object object(const std::string& path);
  /// "pinned" of a problem answer, "" of a success.
  static std::string code_of(const Answer& answer);

  TestServer server;
  std::int64_t sequence = 0;
  const std::string run_path = "/api/v1/runs/" + run_id;
};

}  // namespace babelring::testing
