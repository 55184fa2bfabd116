#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "base/digest.h"
#include "server/artifacts/downloads.h"
#include "tests/server/checkpoint_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Answer;
using testing::Client;

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(("LC_ALL=C.UTF-8 " + command + " 2>&1").c_str(), "r");  // bsdtar turns names into the locale's
  std::array<char, 4096> bytes;
  for (std::size_t size = 0; (size = fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) text.append(bytes.data(), size);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 0) << command << "\n" << text;
  return text;
}

class ArchiveTest : public testing::CheckpointFixture {
 protected:
  void SetUp() override { path = make(10, 30) + "/archive.tar"; }
  std::string path;
};

/// Unpacks an archive and lists name, size and content's digest of what comes out.
void expect_unpacks(const std::string& program, const std::string& archive, const std::string& weights) {
  testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "a.tar", std::ios::binary) << archive;
  const std::string in = program + " -C " + folder.path().string() + " -xf " + (folder.path() / "a.tar").string();
  output_of(in);
  const auto made = folder.path() / "update-00000010";
  EXPECT_EQ(sha256_file(made / "weights.safetensors"), sha256_hex(weights)) << program;
  EXPECT_EQ(std::filesystem::file_size(made / "empty"), 0u) << program;
  const std::string sums = output_of("cd " + made.string() + " && sha256sum -c SHA256SUMS");
  EXPECT_NE(sums.find("state.json: OK"), std::string::npos) << program << sums;
}

TEST_F(ArchiveTest, IsReadByGnuTar) {
  if (!has_program("tar")) GTEST_SKIP() << "there is no tar";
  const Answer answer = ask("GET", path);
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "application/x-tar");
  EXPECT_EQ(answer.headers.at("content-disposition"), "attachment; filename=\"update-00000010.tar\"");
  EXPECT_EQ(answer.body.size() % 512, 0u);
  expect_unpacks("tar", answer.body, weights_of(10));
}

TEST_F(ArchiveTest, IsReadByBsdtar) {
  if (!has_program("bsdtar")) GTEST_SKIP() << "there is no bsdtar (libarchive-tools)";
  expect_unpacks("bsdtar", ask("GET", path).body, weights_of(10));
}

TEST_F(ArchiveTest, PartsAreByteExact) {
  const Answer whole = ask("GET", path);
  const auto size = static_cast<std::int64_t>(whole.body.size());
  const std::string etag = whole.headers.at("etag");
  std::mt19937 random(7);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {{0, 0}, {511, 512}, {0, size - 1}, {size - 1, size - 1}};
  for (int i = 0; i < 60; ++i) {
    const std::int64_t first = static_cast<std::int64_t>(random()) % size;
    ranges.emplace_back(first, std::min(size - 1, first + static_cast<std::int64_t>(random() % 3000)));
  }
  for (const auto& [first, last] : ranges) {
    const std::string range = "Range: bytes=" + std::to_string(first) + "-" + std::to_string(last) + "\r\n";
    const Answer part = ask("GET", path, "", range);
    ASSERT_EQ(part.status, 206) << range;
    ASSERT_EQ(part.body, whole.body.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first + 1)))
        << range;
  }
  EXPECT_EQ(ask("GET", path, "", "Range: bytes=-1024\r\n").body, std::string(1024, '\0'));
  EXPECT_EQ(ask("GET", path, "", "Range: bytes=" + std::to_string(size) + "-\r\n").status, 416);
  EXPECT_EQ(ask("GET", path, "", "If-None-Match: " + etag + "\r\n").status, 304);
  EXPECT_EQ(ask("GET", path, "", "If-Match: " + etag + "\r\nRange: bytes=0-9\r\n").status, 206);
  EXPECT_EQ(code_of(ask("GET", path, "", "If-Match: \"other\"\r\nIf-None-Match: " + etag + "\r\n")), "changed");
  EXPECT_EQ(ask("GET", path, "", "Range: bytes=0-9\r\nIf-Range: \"other\"\r\n").body.size(), whole.body.size());
  const Answer head = ask("HEAD", path);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(size));
  EXPECT_EQ(head.headers.at("etag"), etag);
  server.restart();
  EXPECT_EQ(ask("GET", path).headers.at("etag"), etag);
  EXPECT_EQ(ask("GET", path).body, whole.body);
}

/// F7: what was torn is found wherever it was torn.
TEST_F(ArchiveTest, TornFilesAreNeverHandedOut) {
  const auto weights = folder_of(10) / "weights.safetensors";
  const std::string file = path.substr(0, path.rfind('/')) + "/files/weights.safetensors";
  for (std::uintmax_t size = 0; size < 100'000; size += 4096) {
    std::filesystem::resize_file(weights, size);
    for (const std::string& one : {path, file}) {
      const Answer answer = ask("GET", one);
      ASSERT_EQ(answer.status, 409) << size;
      ASSERT_EQ(code_of(answer), "damaged");
    }
  }
  std::filesystem::resize_file(weights, 100'001);
  EXPECT_EQ(ask("GET", path).status, 409);
  std::filesystem::remove(weights);
  EXPECT_EQ(ask("GET", path).status, 410);
}

/// F7: a flipped bit keeps the size; the digest that comes along shows it.
TEST_F(ArchiveTest, AFlippedBitShowsInTheDigest) {
  const auto weights = folder_of(10) / "weights.safetensors";
  std::string content = weights_of(10);
  content[51'000] = static_cast<char>(content[51'000] ^ 4);
  std::ofstream(weights, std::ios::binary) << content;
  const std::string file = path.substr(0, path.rfind('/')) + "/files/weights.safetensors";
  const Answer answer = ask("GET", file);
  EXPECT_EQ(answer.headers.at("etag"), '"' + sha256_hex(weights_of(10)) + '"');
  EXPECT_NE(sha256_hex(answer.body), sha256_hex(weights_of(10)));
}

/// F19: nothing outside the folder comes in by a link.
TEST_F(ArchiveTest, FollowsNoLinks) {
  const auto config = folder_of(10) / "config.yaml";
  std::ofstream(server.folder() / "secret12") << "secret: 1";
  std::filesystem::remove(config);
  std::filesystem::create_symlink(server.folder() / "secret12", config);
  EXPECT_EQ(ask("GET", path).status, 410);
  std::filesystem::rename(folder_of(10), server.folder() / "moved");
  std::filesystem::create_directory_symlink(server.folder() / "moved", folder_of(10));
  EXPECT_EQ(code_of(ask("GET", path)), "outside_roots");  // it is not named as the checkpoint
}

TEST_F(ArchiveTest, FourDownloadsATokenAtOnce) {
  std::vector<std::unique_ptr<Client>> readers;
  // Nobody reads: the bodies do not fit into the sockets' buffers.
  const std::string big = folder_of(20);
  CheckpointRecord record{.update = 20, .name = "update-00000020", .folder = big};
  std::filesystem::create_directories(big);
  std::ofstream(folder_of(20) / "state.json") << "{}";
  std::ofstream(folder_of(20) / "big") << "";
  std::filesystem::resize_file(folder_of(20) / "big", 64 << 20);
  record.files = {{"big", 64 << 20, std::string(64, '0')}};
  const auto stored = testing::put(server.store(), {testing::record_of(record, ++sequence)});
  const std::string file = "/api/v1/checkpoints/" + stored.fresh.at(0).id + "/files/big";
  for (int i = 0; i < 4; ++i) {
    readers.push_back(std::make_unique<Client>(server.port()));
    readers.back()->send("GET " + file + " HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() + "\r\n");
    EXPECT_NE(readers.back()->read_until("\r\n\r\n").find(" 200 "), std::string::npos);
  }
  const Answer fifth = ask("GET", file);
  EXPECT_EQ(fifth.status, 429);
  EXPECT_EQ(code_of(fifth), "too_many_downloads");
  EXPECT_EQ(ask("HEAD", file).status, 200);
  readers.clear();
  EXPECT_TRUE(soon([&] { return ask("GET", path).status == 200; }));
}

TEST(Tar, UsesPaxWhereUstarEnds) {
  if (!has_program("tar")) GTEST_SKIP() << "there is no tar";
  testing::TemporaryFolder folder;
  const std::string name = "folder/" + std::string(120, 'n') + "/\xc3\xa4.txt";
  std::ofstream(folder.path() / "a.tar", std::ios::binary)
      << artifacts::tar_header(name, 3, 1'795'233'600) << "abc" << artifacts::tar_padding(3) << artifacts::tar_end();
  for (const std::string program : {"tar", "bsdtar"}) {
    if (!has_program(program)) continue;
    EXPECT_EQ(output_of(program + " -xOf " + (folder.path() / "a.tar").string()), "abc");
    EXPECT_NE(output_of("LC_ALL=C.UTF-8 " + program + " -tf " + (folder.path() / "a.tar").string())
                  .find(std::string(120, 'n')),
              std::string::npos);
  }
  // 10 GiB: the size stands in the extended header.
  EXPECT_NE(artifacts::tar_header("big", 10'737'418'240, 0).find("20 size=10737418240\n"), std::string::npos);
  EXPECT_EQ(artifacts::tar_header("big", 10'737'418'240, 0).size(), 1536u);
  EXPECT_EQ(artifacts::tar_header("small", 8'589'934'591, 0).size(), 512u);
}

}  // namespace
}  // namespace babelring
