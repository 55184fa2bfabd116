#include "nmt/core/memory_info.h"

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
    fs::create_directory(folder_ / "self");
    write("meminfo", "MemTotal:       8000000 kB\nMemFree:  1000 kB\nMemAvailable:   6000000 kB\nHugePages_Total: 0\n");
  }
  ~HostMemoryRoom() override { fs::remove_all(folder_); }
  void write(const char* name, const char* text) const { std::ofstream(folder_ / name) << text; }
  MemoryInfo room() const { return host_memory_info(folder_, folder_); }

  fs::path folder_;
};

TEST_F(HostMemoryRoom, ReadsMemInfo) {
  EXPECT_EQ(room().total, std::size_t{8'000'000} * 1024);
  EXPECT_EQ(room().free, std::size_t{6'000'000} * 1024);
}

TEST_F(HostMemoryRoom, AppliesTheControlGroupLimit) {
  write("memory.max", "1000000\n");
  write("memory.current", "300000\n");
  EXPECT_EQ(room().total, 1'000'000U);
  EXPECT_EQ(room().free, 700'000U);
  write("memory.current", "1000001\n");
  EXPECT_EQ(room().free, 0U);
  write("memory.max", "max\n");
  EXPECT_EQ(room().total, std::size_t{8'000'000} * 1024);
}

/// A systemd service or a batch system sets the limit on the job's group.
TEST_F(HostMemoryRoom, AppliesTheLimitsOfAllAncestors) {
  write("self/cgroup", "4:memory:/elsewhere\n0::/job/task\n");
  fs::create_directories(folder_ / "job/task");
  write("job/memory.max", "1000000\n");
  write("job/memory.current", "300000\n");
  write("job/task/memory.max", "max\n");
  write("job/task/memory.current", "200000\n");
  EXPECT_EQ(room().total, 1'000'000U);
  EXPECT_EQ(room().free, 700'000U);
  write("job/task/memory.max", "400000\n");
  EXPECT_EQ(room().total, 400'000U);
  EXPECT_EQ(room().free, 200'000U);
  write("job/memory.current", "950000\n");  // used by other tasks of the job
  EXPECT_EQ(room().free, 50'000U);
  write("self/cgroup", "0::/gone\n");
  EXPECT_EQ(room().free, std::size_t{6'000'000} * 1024);
}

TEST_F(HostMemoryRoom, IsBoundByGroupsOfVersionOne) {
  write("self/cgroup", "7:cpu,cpuacct:/elsewhere\n4:memory:/job/task\n0::/\n");
  fs::create_directories(folder_ / "memory/job/task");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "5000000000\n");
  EXPECT_EQ(room().total, std::size_t{8'000'000} * 1024);
  write("memory/job/memory.limit_in_bytes", "1000000\n");
  write("memory/job/memory.usage_in_bytes", "300000\n");
  write("memory/job/task/memory.limit_in_bytes", "400000\n");
  write("memory/job/task/memory.usage_in_bytes", "200000\n");
  write("memory/job/task/memory.stat", "inactive_file 7\ntotal_inactive_file 50000\n");
  EXPECT_EQ(room().total, 400'000U);
  EXPECT_EQ(room().free, 250'000U);
  write("self/cgroup", "4:memory:/docker/abc\n");  // which a container does not see
  write("memory/memory.limit_in_bytes", "900000\n");
  write("memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(room().total, 900'000U);
  EXPECT_EQ(room().free, 800'000U);
}

TEST_F(HostMemoryRoom, CountsInactivePageCacheAsFree) {
  write("memory.max", "1000000\n");
  write("memory.current", "900000\n");
  write("memory.stat", "anon 200000\nfile 700000\ninactive_file 600000\nactive_file 100000\n");
  EXPECT_EQ(room().free, 700'000U);
}

TEST_F(HostMemoryRoom, IsZeroIfUnknown) {
  EXPECT_EQ(host_memory_info("/dev/null/none", "/dev/null/none").total, 0U);
  const MemoryInfo here = host_memory_info();
  EXPECT_LE(here.free, here.total);
}

}  // namespace
}  // namespace babelring
