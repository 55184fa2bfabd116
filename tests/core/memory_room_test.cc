#include "nmt/core/memory_room.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace babelring {
namespace {

namespace fs = std::filesystem;

class HostMemoryRoom : public testing::Test {
 protected:
  HostMemoryRoom() {
    std::string pattern = (fs::temp_directory_path() / "babelring-room-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    write("meminfo", "MemTotal:       8000000 kB\nMemFree:  1000 kB\nMemAvailable:   6000000 kB\nHugePages_Total: 0\n");
  }
  ~HostMemoryRoom() override { fs::remove_all(folder_); }
  void write(const char* name, const char* text) const { std::ofstream(folder_ / name) << text; }
  MemoryRoom room() const { return host_memory_room(folder_ / "meminfo", folder_); }

  fs::path folder_;
};

TEST_F(HostMemoryRoom, IsWhatTheKernelSaysIsAvailable) {
  EXPECT_EQ(room().total, std::size_t{8'000'000} * 1024);
  EXPECT_EQ(room().free, std::size_t{6'000'000} * 1024);
}

TEST_F(HostMemoryRoom, IsWhatTheControlGroupLeaves) {
  write("memory.max", "1000000\n");
  write("memory.current", "300000\n");
  EXPECT_EQ(room().total, 1'000'000U);
  EXPECT_EQ(room().free, 700'000U);
  write("memory.current", "1000001\n");
  EXPECT_EQ(room().free, 0U);
  write("memory.max", "max\n");
  EXPECT_EQ(room().total, std::size_t{8'000'000} * 1024);
}

TEST_F(HostMemoryRoom, CountsCachedFilesAsFree) {
  write("memory.max", "1000000\n");
  write("memory.current", "900000\n");
  write("memory.stat", "anon 200000\nfile 700000\ninactive_file 600000\nactive_file 100000\n");
  EXPECT_EQ(room().free, 700'000U);
}

TEST_F(HostMemoryRoom, IsNotKnownWhereNobodySays) {
  EXPECT_EQ(host_memory_room("/no/such/file", "/no/such/folder").total, 0U);
  const MemoryRoom here = host_memory_room();
  EXPECT_LE(here.free, here.total);
}

}  // namespace
}  // namespace babelring
