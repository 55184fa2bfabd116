#include "client/file_download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/digest.h"
#include "base/files.h"
#include "client/api_client.h"
#include "tests/client/scripted_server.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class FileDownloadTest : public testing::Test {
 protected:
  FileDownloadTest() {
    for (int i = 0; i < 500000; ++i) content_ += static_cast<char>(i * 7 % 251);
    remote_ = {.target = "/file", .size = std::ssize(content_), .sha256 = sha256_hex(content_)};
    fs::remove(path_);
  }
  ~FileDownloadTest() override { fs::remove(path_); }

  /// The answer of the real server: the requested part, if the rest of the request fits.
  ScriptedAnswer part(const ScriptedRequest& request) const {
    const std::string range = request.header("range");
    if (range.empty() || request.header("if-range") != '"' + remote_.sha256 + '"') return {.body = content_};
    const auto offset = static_cast<std::size_t>(std::stoll(range.substr(range.find('=') + 1)));
    return {.status = 206,
            .body = content_.substr(offset),
            .headers = {"Content-Range: bytes " + std::to_string(offset) + "-499999/500000"}};
  }
  void download(const ScriptedServer& server) {
    HttpClient client(server.address());
    download_file(client, remote_, path_, {}, 3);
  }

  std::string content_;
  RemoteFile remote_;
  const fs::path path_ = testing::TempDir() + "file_download_test." + std::to_string(::getpid());
};

TEST_F(FileDownloadTest, DownloadsAndReportsProgress) {
  ScriptedServer server([&](const ScriptedRequest& request) { return part(request); });
  HttpClient client(server.address());
  std::int64_t last = 0;
  download_file(client, remote_, path_, [&](std::int64_t bytes) {
    EXPECT_GE(bytes, last);
    last = bytes;
  });
  EXPECT_EQ(last, remote_.size);
  EXPECT_EQ(read_file(path_), content_);
  EXPECT_EQ(server.requests()[0].header("range"), "");
}

TEST_F(FileDownloadTest, ResumesAfterLostConnections) {
  ScriptedServer server([&](const ScriptedRequest& request) {
    ScriptedAnswer answer = part(request);
    if (request.number < 4) answer.cut_after = 100000;
    return answer;
  });
  download(server);
  EXPECT_EQ(read_file(path_), content_);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 5u);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(requests[i].header("range"), fmt::format("bytes={}-", 100000 * i));
}

TEST_F(FileDownloadTest, ResumesAPartialFile) {
  std::ofstream(path_) << content_.substr(0, 300000);
  ScriptedServer server([&](const ScriptedRequest& request) { return part(request); });
  download(server);
  EXPECT_EQ(read_file(path_), content_);
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].header("range"), "bytes=300000-");
  download(server);
  EXPECT_EQ(server.requests().size(), 1u) << "what is there and whole is not asked for";
}

TEST_F(FileDownloadTest, AcceptsAServerThatSendsTheWholeFile) {
  std::ofstream(path_) << std::string(300000, 'x');
  ScriptedServer server([&](const ScriptedRequest&) { return ScriptedAnswer{.body = content_}; });
  download(server);
  EXPECT_EQ(read_file(path_), content_);
}

TEST_F(FileDownloadTest, AMixOfTwoFilesIsDetectedAndDownloadedAgain) {
  std::ofstream(path_) << std::string(300000, 'x');
  ScriptedServer server([&](const ScriptedRequest& request) { return part(request); });
  download(server);
  EXPECT_EQ(read_file(path_), content_);
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[1].header("range"), "");
}

TEST_F(FileDownloadTest, ContentThatDiffersFromTheManifestIsRefused) {
  ScriptedServer flipped([&](const ScriptedRequest&) {
    std::string other = content_;
    other[123456] ^= 1;
    return ScriptedAnswer{.body = other};
  });
  EXPECT_THAT([&] { download(flipped); }, ThrowsMessage<Failure>(HasSubstr("from the checkpoint's manifest")));
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(flipped.requests().size(), 2u);
  ScriptedServer longer([&](const ScriptedRequest&) { return ScriptedAnswer{.body = content_ + "x"}; });
  EXPECT_THAT([&] { download(longer); }, ThrowsMessage<Failure>("/file: the server sent more than 500000 bytes"));
  ScriptedServer gone([&](const ScriptedRequest&) {
    return ScriptedAnswer{.status = 410, .body = R"({"detail":"checkpoint c_1 was removed by retention"})"};
  });
  EXPECT_THAT([&] { download(gone); },
              ThrowsMessage<ServerRefusal>("server says 410: checkpoint c_1 was removed by retention"));
}

TEST_F(FileDownloadTest, GivesUpAfterRetriesWithoutDataAndKeepsThePartialFile) {
  ScriptedServer server([&](const ScriptedRequest& request) {
    ScriptedAnswer answer = part(request);
    answer.cut_after = request.number == 0 ? 200000 : 0;
    return answer;
  });
  EXPECT_THAT([&] { download(server); }, ThrowsMessage<Failure>(HasSubstr("repeat the command to resume")));
  EXPECT_EQ(fs::file_size(path_), 200000u);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(FileDownloadTest, AnEmptyFileNeedsNoRequest) {
  content_.clear();
  remote_ = {.target = "/file", .size = 0, .sha256 = sha256_hex("")};
  ScriptedServer server([&](const ScriptedRequest&) { return ScriptedAnswer{}; });
  download(server);
  EXPECT_EQ(fs::file_size(path_), 0u);
  EXPECT_EQ(server.requests().size(), 0u);
}

}  // namespace
}  // namespace babelring
