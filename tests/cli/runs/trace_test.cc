#include "cli/runs/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/object.hpp>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/failure.h"
#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A server with a run that is traced while the client asks twice, and an older trace by another request.
class RunTraceTest : public testing::Test {
 protected:
  RunTraceTest() {
    fs::remove_all(base_);
    fs::create_directories(base_);
    request_.run = "r_1";
    request_.output = base_ / "trace.json.gz";
    request_.poll_interval = std::chrono::milliseconds(1);
    request_.patience = std::chrono::milliseconds(5);
  }
  ~RunTraceTest() override { fs::remove_all(base_); }

  json::object artifact(const std::string& id, std::int64_t request) const {
    return {{"id", id},
            {"attempt", 2},
            {"name", "trace-update-00000020.json.gz"},
            {"update", 20},
            {"bytes", file_.size()},
            {"sha256", sha256_hex(file_)},
            {"content", json::object{{"request", request}}}};
  }
  ScriptedAnswer answer(const ScriptedRequest& request) {
    if (request.method == "POST") body_ = request.body;
    if (request.target == "/api/v1/runs/r_1/trace") {
      const bool under_way = request.method == "POST" || ++looks_ < 3;
      return {.body = to_text(json::object{{"attempt", attempt_}, {"number", 3}, {"under_way", under_way}})};
    }
    if (request.target.starts_with("/api/v1/runs/r_1/artifacts?kind=trace")) {
      const json::array items{artifact("f_old", 2), artifact("f_new", 3)};
      return {.body = to_text(json::object{{"items", items}, {"next_cursor", nullptr}})};
    }
    if (request.target == "/api/v1/artifacts/f_old") return {.body = to_text(artifact("f_old", 2))};
    if (request.target == "/api/v1/artifacts/f_new") return {.body = to_text(artifact("f_new", shown_))};
    if (request.target == "/api/v1/artifacts/f_new/file") return {.body = file_};
    if (request.target == "/api/v1/runs/r_1") return {.body = R"({"state": "stopped"})"};
    return {.status = 404, .body = R"({"detail":"unexpected"})"};
  }

  const fs::path base_ = testing::TempDir() + "run_trace_test." + std::to_string(::getpid());
  const std::string file_ = std::string(2000, 't');
  TraceDownload request_;
  std::atomic<int> looks_ = 0, shown_ = 3, attempt_ = 2;
  std::string body_;
  ScriptedServer server_{[this](const ScriptedRequest& request) { return answer(request); }};
  ApiClient api_{{server_.address(), ""}};
};

TEST_F(RunTraceTest, DownloadsTheFileOfItsOwnRequest) {
  request_.updates = 5;
  request_.ops = false;
  const TracedRun traced = trace_run(api_, request_);
  EXPECT_EQ(body_, R"({"updates":5,"ops":false})");
  EXPECT_EQ(looks_, 3);
  EXPECT_EQ(traced.artifact.at("id"), "f_new");
  EXPECT_EQ(read_file(request_.output), file_);
  EXPECT_FALSE(fs::exists(base_ / "trace.json.gz.part"));
}

TEST_F(RunTraceTest, RequestsNothingIfTheFileExists) {
  write_file_atomically(request_.output, "");
  EXPECT_THAT([&] { trace_run(api_, request_); }, ThrowsMessage<Failure>(HasSubstr("already exists")));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(RunTraceTest, SaysIfTheFileDoesNotArrive) {
  shown_ = 9;
  EXPECT_THAT([&] { trace_run(api_, request_); },
              ThrowsMessage<Failure>(HasSubstr("run r_1 is stopped and its trace has not arrived")));
  EXPECT_FALSE(fs::exists(request_.output));
}

TEST_F(RunTraceTest, SaysIfTheRunWasStartedAgain) {
  ScriptedServer server([this](const ScriptedRequest& request) {
    ScriptedAnswer reply = answer(request);
    attempt_ = 3;
    return reply;
  });
  ApiClient api({server.address(), ""});
  EXPECT_THAT([&] { trace_run(api, request_); },
              ThrowsMessage<Failure>(HasSubstr("run r_1 began attempt 3 before it was traced")));
}

}  // namespace
}  // namespace babelring
