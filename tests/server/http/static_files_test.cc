#include "server/http/static_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/server/test_server.h"

namespace babelring {
namespace {

/// A page that is served from a folder, with a secret beside it.
class PageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder.path() / "page/assets");
    write("secret.txt", "TOPSECRET");
    write("page/index.html", "<html>");
    write("page/assets/app.js", "let a;");
    std::filesystem::create_symlink(folder.path() / "secret.txt", folder.path() / "page/link.txt");
    std::filesystem::create_directory_symlink(folder.path(), folder.path() / "page/up");
  }
  void write(const std::string& name, const std::string& content) { std::ofstream(folder.path() / name) << content; }
  static http::Request request_of(std::vector<std::string> segments) {
    http::Request request;
    request.method = "GET";
    request.segments = std::move(segments);
    return request;
  }
  testing::TemporaryFolder folder;
  http::StaticFiles page{{}, folder.path() / "page"};
};

TEST_F(PageFolderTest, IsServedWithItsTypes) {
  const auto check = [&](const http::Request& request, std::string_view type, std::int64_t bytes) {
    ASSERT_TRUE(page.has(request));
    const http::Response response = page.serve(request);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("Content-Type"), type);
    EXPECT_EQ(std::get<http::FileSlice>(response.body).length, bytes);
  };
  check(request_of({}), "text/html; charset=utf-8", 6);
  check(request_of({"index.html"}), "text/html; charset=utf-8", 6);
  check(request_of({"assets", "app.js"}), "text/javascript; charset=utf-8", 6);
  EXPECT_FALSE(page.has(request_of({"assets", "absent.js"})));
  EXPECT_FALSE(page.has(request_of({"assets"}))) << "a folder";
  EXPECT_FALSE(page.has(request_of({"runs", "r_1"}))) << "the page's links to its own files are relative to /";
  EXPECT_FALSE(page.has(request_of({"api", "v1", "nothing"}))) << "not the page's";
}

/// A browser takes the policy of a worker from the worker's script.
TEST_F(PageFolderTest, OnlyWorkersMayCompileWebAssembly) {
  write("page/assets/model.wasm", "asm");
  EXPECT_EQ(page.serve(request_of({"assets", "model.wasm"})).header("Content-Type"), "application/wasm");
  const http::Response script = page.serve(request_of({"assets", "app.js"}));
  EXPECT_EQ(script.header("Content-Security-Policy"),
            "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; frame-ancestors 'none'");
  EXPECT_EQ(page.serve(request_of({})).header("Content-Security-Policy"), "") << "the one of all responses";
}

TEST_F(PageFolderTest, GivesNothingOutsideIt) {
  for (const std::vector<std::string>& segments :
       std::vector<std::vector<std::string>>{{"link.txt"},
                                             {"up", "secret.txt"},
                                             {"..", "secret.txt"},
                                             {"../secret.txt"},
                                             {"assets", "..", "..", "secret.txt"},
                                             {"", folder.path().string().substr(1), "secret.txt"},
                                             {folder.path() / "secret.txt"}}) {
    EXPECT_FALSE(page.has(request_of(segments))) << segments.back();
    EXPECT_EQ(page.serve(request_of(segments)).status, 404) << segments.back();
  }
}

TEST_F(PageFolderTest, SaysWhenAFileHasGoneSince) {
  const http::Request request = request_of({"assets", "app.js"});
  ASSERT_TRUE(page.has(request));
  std::filesystem::remove(folder.path() / "page/assets/app.js");
  EXPECT_EQ(page.serve(request).status, 404);
}

}  // namespace
}  // namespace babelring
