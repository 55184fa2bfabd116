#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring::testing {

/// A server with a fake worker, which checks the configurations of submitted runs.
class ControlTest : public ::testing::Test {
 protected:
  /// A fake worker that accepts every configuration, or responds with `verdict`.
  void put_worker(const std::string& verdict) {
    const auto file = server.folder() / "worker";
    write_file_atomically(file, "#!/bin/sh\ncat <<'END'\n" + verdict + "\nEND\n");
    chmod(file.c_str(), 0755);
  }
  void put_good_worker() {
    put_worker(R"({"config": "name: n\n", "name": "n", "max_updates": 60, "data_folder": "/d", "not_estimated": []})");
  }
  Answer send(const std::string& method, const std::string& path, const std::string& body) {
    client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                authorization() + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.receive();
  }
  Answer post(const std::string& path, const std::string& body = "{}") { return send("POST", path, body); }
  json::value get(const std::string& path) { return parse_json(client.get(path).body).value(); }
  std::string code(const Answer& answer) { return parse_json(answer.body)->at("code").as_string().c_str(); }
  std::string submit(const std::string& more = "") {
    put_good_worker();
    const auto answer = post("/api/v1/runs", R"({"config": "x: 1")" + more + "}");
    EXPECT_EQ(answer.status, 202) << answer.body;
    return parse_json(answer.body)->at("id").as_string().c_str();
  }
  Answer beat(const std::string& run, std::int64_t attempt, std::int64_t rank = 0, const std::string& more = "") {
    return post("/api/v1/runs/" + run + "/heartbeat",
                fmt::format(R"({{"attempt": {}, "rank": {}, "host": "hostA"{}}})", attempt, rank, more));
  }

  TestServer server;
  Client client{server.port()};
};

}  // namespace babelring::testing
