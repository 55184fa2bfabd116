#include <gtest/gtest.h>

#include <fstream>

#include "base/digest.h"
#include "base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Client;
using testing::record_of;
using testing::run_id;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 300'000; ++i) content += static_cast<char>(i * 31 % 251);
    folder = server.folder() / "run/update-00000010";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "model.safetensors", std::ios::binary) << content;
    std::ofstream(server.folder() / "secret") << "secret";
    std::filesystem::create_symlink(server.folder() / "secret", folder / "link");
    record.update = 10;
    record.name = "update-00000010";
    record.folder = folder;
    record.files = {{"model.safetensors", 300'000, sha256_hex(content)},
                    {"link", 6, sha256_hex("secret")},
                    {"../../secret", 6, sha256_hex("secret")},
                    {"absent", 6, sha256_hex("secret")},
                    {"fresh", 7, sha256_hex("secret")}};
    std::ofstream(folder / "state.json") << "{}";
    std::ofstream(folder / "fresh") << "secret";  // six bytes: the manifest says seven
    path = store(record, 1);
  }
  std::string store(const CheckpointRecord& checkpoint, std::int64_t sequence) {
    const auto result = testing::put(server.store(), {record_of(checkpoint, sequence)});
    return "/api/v1/checkpoints/" + result.fresh.at(0).id;
  }
  testing::Answer get(const std::string& name, const std::string& headers = "") {
    return Client(server.port()).get(path + "/files/" + name, headers);
  }
  testing::TestServer server;
  std::filesystem::path folder;
  std::string content, path;
  CheckpointRecord record;
};

TEST_F(CheckpointTest, HandsOutWholeFilesAndParts) {
  const auto whole = get("model.safetensors");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, content);
  const std::string etag = '"' + sha256_hex(content) + '"';
  EXPECT_EQ(whole.headers.at("etag"), etag);
  EXPECT_TRUE(whole.headers.at("repr-digest").starts_with("sha-256=:"));
  EXPECT_EQ(whole.headers.at("repr-digest").size(), std::string("sha-256=::").size() + 44);

  const auto part = get("model.safetensors", "Range: bytes=100000-199999\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.headers.at("content-range"), "bytes 100000-199999/300000");
  EXPECT_EQ(part.body, content.substr(100'000, 100'000));
  EXPECT_EQ(get("model.safetensors", "Range: bytes=-7\r\n").body, content.substr(299'993));
  EXPECT_EQ(get("model.safetensors", "Range: bytes=0-1,5-6\r\n").status, 200);
  const auto beyond = get("model.safetensors", "Range: bytes=300000-\r\n");
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.headers.at("content-range"), "bytes */300000");
  EXPECT_EQ(get("model.safetensors", "Range: bytes=0-9\r\nIf-Range: " + etag + "\r\n").status, 206);
  EXPECT_EQ(get("model.safetensors", "If-Match: \"x\", " + etag + "\r\n").status, 200);
  EXPECT_EQ(get("model.safetensors", "If-Match: \"x\"\r\n").status, 412);
  EXPECT_EQ(get("model.safetensors", "If-Match: W/" + etag + "\r\nRange: bytes=0-9\r\n").status, 412);
  EXPECT_EQ(get("model.safetensors", "Range: bytes=0-9\r\nIf-Range: \"old\"\r\n").body, content);
  EXPECT_EQ(get("model.safetensors", "If-None-Match: " + etag + "\r\n").status, 304);

  Client client(server.port());
  client.send("HEAD " + path + "/files/model.safetensors HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() +
              "\r\n");
  EXPECT_EQ(client.receive(true).headers.at("content-length"), "300000");
  EXPECT_EQ(client.get("/healthz").status, 200);  // no stray body bytes
}

TEST_F(CheckpointTest, ReachesNothingOutsideTheManifestAndFolder) {
  for (const char* name : {"secret", "..%2f..%2fsecret%00", "%2fetc%2fpasswd", "model.safetensors%00",
                           "model.safetensors%23", "..%5csecret", "%252e%252e%252fsecret"}) {
    const int status = get(name).status;
    EXPECT_TRUE(status == 404 || status == 400) << name << " " << status;
  }
  EXPECT_EQ(get("../../../../etc/passwd").status, 400);
  EXPECT_EQ(get("%2e%2e").status, 400);
  EXPECT_EQ(get(std::string(3900, 'a')).status, 404);
  EXPECT_EQ(get("link").status, 410);              // listed, but a symbolic link
  EXPECT_EQ(get("..%2f..%2fsecret").status, 410);  // listed, but outside the folder
  EXPECT_EQ(get("absent").status, 410);
  EXPECT_EQ(get("fresh").status, 409);
}

TEST_F(CheckpointTest, ServesOnlyBelowItsRoots) {
  record.name = "elsewhere";
  record.folder = "/etc";
  record.files = {
      {"passwd", static_cast<std::int64_t>(std::filesystem::file_size("/etc/passwd")), std::string(64, '0')}};
  path = store(record, 2);
  EXPECT_EQ(get("passwd").status, 409);
  record.name = "dots";
  record.folder = server.folder().string() + "/run/../../../../../../etc";
  path = store(record, 3);
  EXPECT_EQ(get("passwd").status, 409);
  std::filesystem::create_directory_symlink("/etc", server.folder() / "linked");
  record.name = "linked";
  record.folder = server.folder() / "linked";
  path = store(record, 4);
  EXPECT_EQ(get("passwd").status, 409);
}

TEST_F(CheckpointTest, ListsManifestsSumsAndRemovals) {
  Client client(server.port());
  EXPECT_TRUE(client.get(path + "/SHA256SUMS").body.starts_with(sha256_hex(content) + "  model.safetensors\n"));
  const auto manifest = client.get(path);
  EXPECT_EQ(client.get(path, "If-None-Match: " + manifest.headers.at("etag") + "\r\n").status, 304);
  const std::string list = "/api/v1/runs/" + run_id + "/checkpoints";
  const auto count = [&](const std::string& query) {
    return parse_json(client.get(list + query).body).value().at("items").as_array().size();
  };
  EXPECT_EQ(count(""), 1u);
  record.removed = true;
  record.files.clear();
  EXPECT_EQ(store(record, 2), path);
  EXPECT_EQ(count(""), 0u);
  EXPECT_EQ(count("?removed=true"), 1u);
  EXPECT_EQ(get("model.safetensors").status, 410);
}

}  // namespace
}  // namespace babelring
