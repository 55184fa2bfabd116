#include "cli/runs/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <fstream>
#include <map>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/work_folder.h"
#include "cli/runs/table.h"
#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A checkpoint of two files as a server has it.
class DownloadTest : public testing::Test {
 protected:
  DownloadTest() {
    fs::remove_all(base_);
    fs::create_directories(base_);
  }
  ~DownloadTest() override { fs::remove_all(base_); }

  json::object checkpoint() const {
    json::array files;
    for (const auto& [name, content] : files_) {
      files.push_back(json::object{{"name", name}, {"size", content.size()}, {"sha256", sha256_hex(content)}});
    }
    return {{"id", "c_1"}, {"run", "r_1"}, {"name", "update-00000004"}, {"update", 4}, {"files", files}};
  }
  ScriptedAnswer answer(const ScriptedRequest& request) const {
    for (const auto& [name, content] : files_) {
      if (request.target != "/api/v1/checkpoints/c_1/files/" + name) continue;
      const std::string range = request.header("range");
      if (range.empty()) return {.body = content};
      return {.status = 206,
              .body = content.substr(static_cast<std::size_t>(std::stoll(range.substr(6)))),
              .headers = {"Content-Range: " + std::string("bytes ") + range.substr(6) + "9/10"}};
    }
    return {.status = 404, .body = R"({"detail":"no such file"})"};
  }

  std::map<std::string, std::string> files_ = {{"weights.safetensors", std::string(1000, 'w')}, {"state.json", "{}\n"}};
  const fs::path base_ = testing::TempDir() + "runs_download_test." + std::to_string(::getpid());
  const fs::path folder_ = base_ / "out";
};

TEST_F(DownloadTest, CreatesACompleteFolder) {
  ScriptedServer server([&](const ScriptedRequest& request) { return answer(request); });
  ApiClient api({server.address(), ""});
  std::int64_t last = 0, total = 0;
  download_checkpoint(api, checkpoint(), folder_, [&](std::int64_t bytes, std::int64_t all) {
    last = bytes;
    total = all;
  });
  EXPECT_EQ(last, 1003);
  EXPECT_EQ(total, 1003);
  for (const auto& [name, content] : files_) EXPECT_EQ(read_file(folder_ / name), content);
  EXPECT_EQ(
      read_file(folder_ / "SHA256SUMS"),
      sha256_hex("{}\n") + "  state.json\n" + sha256_hex(files_["weights.safetensors"]) + "  weights.safetensors\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), {}), 1);
  EXPECT_THAT([&] { download_checkpoint(api, checkpoint(), folder_); },
              ThrowsMessage<Failure>(HasSubstr("already exists")));
}

TEST_F(DownloadTest, AcceptsATrailingSlash) {
  ScriptedServer server([&](const ScriptedRequest& request) { return answer(request); });
  ApiClient api({server.address(), ""});
  download_checkpoint(api, checkpoint(), folder_ / "");
  for (const auto& [name, content] : files_) EXPECT_EQ(read_file(folder_ / name), content);
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), {}), 1);
}

TEST_F(DownloadTest, ResumesAnInterruptedDownload) {
  fs::path part;
  {
    WorkFolder interrupted(base_, "out", "checkpoint c_1");
    interrupted.keep();
    part = interrupted.path();
  }
  fs::create_directories(part / "stray");
  std::ofstream(part / "weights.safetensors") << std::string(600, 'w');
  std::ofstream(part / "of-another-checkpoint") << "x";
  fs::create_symlink("/etc/passwd", part / "state.json");
  ScriptedServer server([&](const ScriptedRequest& request) { return answer(request); });
  ApiClient api({server.address(), ""});
  download_checkpoint(api, checkpoint(), folder_);
  EXPECT_EQ(read_file(folder_ / "weights.safetensors"), files_["weights.safetensors"]);
  EXPECT_FALSE(fs::is_symlink(folder_ / "state.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3) << "and SHA256SUMS";
  EXPECT_EQ(server.requests()[1].header("range"), "bytes=600-");
  EXPECT_EQ(std::distance(fs::directory_iterator(base_), {}), 1);
}

TEST_F(DownloadTest, KeepsFoldersOfOthersAndRefusesASecondDownload) {
  fs::create_directories(base_ / "out.part");
  std::ofstream(base_ / "out.part" / "notes.txt") << "mine";
  ScriptedServer server([&](const ScriptedRequest& request) { return answer(request); });
  ApiClient api({server.address(), ""});
  {
    const WorkFolder other(base_, "out", "checkpoint c_1");
    EXPECT_THAT([&] { download_checkpoint(api, checkpoint(), folder_); },
                ThrowsMessage<Failure>(HasSubstr("writes there at the moment")));
  }
  download_checkpoint(api, checkpoint(), folder_);
  EXPECT_EQ(read_file(base_ / "out.part" / "notes.txt"), "mine");
}

TEST_F(DownloadTest, CreatesNothingOnError) {
  ScriptedServer server([&](const ScriptedRequest& request) {
    ScriptedAnswer given = answer(request);
    if (request.target.ends_with("weights.safetensors")) given.body[7] = '!';
    return given;
  });
  ApiClient api({server.address(), ""});
  EXPECT_THAT([&] { download_checkpoint(api, checkpoint(), folder_); },
              ThrowsMessage<Failure>(HasSubstr("weights.safetensors: SHA-256 is")));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(DownloadTest, RefusesNamesOutsideTheFolder) {
  ScriptedServer server([&](const ScriptedRequest& request) { return answer(request); });
  ApiClient api({server.address(), ""});
  for (const char* name : {"../evil", "/etc/passwd", ".hidden", "", "a/b", "SHA256SUMS"}) {
    files_ = {{name, "x"}, {"state.json", "{}\n"}};
    EXPECT_THAT([&] { download_checkpoint(api, checkpoint(), folder_); },
                ThrowsMessage<Failure>(HasSubstr("its manifest has a file named")))
        << name;
  }
  files_ = {{"weights.safetensors", "x"}};
  EXPECT_THAT([&] { download_checkpoint(api, checkpoint(), folder_); },
              ThrowsMessage<Failure>(HasSubstr("no state.json")));
  EXPECT_TRUE(server.requests().empty());
}

TEST(ChooseCheckpoint, PrefersTheBestToTheNewest) {
  std::string items = R"({"id":"c_3","best":false},{"id":"c_2","best":true},{"id":"c_1","best":true})";
  ScriptedServer server([&](const ScriptedRequest& request) -> ScriptedAnswer {
    if (request.target == "/api/v1/checkpoints/c_9") return {.body = R"({"id":"c_9"})"};
    return {.body = R"({"items":[)" + items + R"(],"next_cursor":null})"};
  });
  ApiClient api({server.address(), ""});
  const auto chosen = [&](const CheckpointSelector& choice) {
    return text_of(choose_checkpoint(api, "r_1", choice), "id");
  };
  EXPECT_EQ(chosen({}), "c_2");
  EXPECT_EQ(chosen({.best = true}), "c_2");
  EXPECT_EQ(chosen({.latest = true}), "c_3");
  EXPECT_EQ(chosen({.id = "c_9"}), "c_9");
  items = R"({"id":"c_3","best":false})";
  EXPECT_EQ(chosen({}), "c_3");
  EXPECT_THAT([&] { chosen({.best = true}); }, ThrowsMessage<Failure>(HasSubstr("run r_1 has no best checkpoint")));
  items = "";
  EXPECT_THAT([&] { chosen({}); }, ThrowsMessage<Failure>("run r_1 has no checkpoint yet"));
}

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
  TimelineRequest request_;
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
