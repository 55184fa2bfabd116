#include "nmt/core/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

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

namespace fs = std::filesystem;

class ProcessorQuota : public testing::Test {
 protected:
  ProcessorQuota() {
    std::string pattern = (fs::temp_directory_path() / "babelring-processors-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ProcessorQuota() override { fs::remove_all(folder_); }
  void write(const fs::path& name, const char* text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  double quota() const { return processor_quota(folder_ / "proc", folder_ / "groups"); }

  fs::path folder_;
};

TEST_F(ProcessorQuota, TakesTheMinimumInVersionTwo) {
  EXPECT_EQ(quota(), 0);
  write("proc/self/cgroup", "0::/job/task\n");
  write("groups/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("groups/job/cpu.max", "150000 100000\n");
  write("groups/job/task/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("groups/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 4);
}

/// In Kubernetes a container sees its own group as the root.
TEST_F(ProcessorQuota, ReadsTheRootGroupInAContainer) {
  write("proc/self/cgroup", "0::/\n");
  write("groups/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(ProcessorQuota, TakesTheMinimumInVersionOne) {
  write("proc/self/cgroup", "7:memory:/elsewhere\n4:cpu,cpuacct:/job/task\n1:name=systemd:/\n0::/\n");
  write("groups/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("groups/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("groups/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  write("groups/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("groups/cpu,cpuacct/job/task/cpu.cfs_quota_us", "40000\n");
  write("groups/cpu,cpuacct/job/task/cpu.cfs_period_us", "20000\n");
  EXPECT_EQ(quota(), 2);
  write("groups/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(ProcessorQuota, AcceptsASingleControllerMountInVersionOne) {
  write("proc/self/cgroup", "4:cpu:/docker/abc\n");  // not visible inside of the container
  write("groups/cpu/cpu.cfs_quota_us", "250000\n");
  write("groups/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST(Processors, FollowTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(own_processors().allowed, std::vector<int>{first});
  EXPECT_EQ(own_processors().count(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(own_processors().allowed.size(), static_cast<std::size_t>(CPU_COUNT(&before)));
}

TEST(Processors, QuotaLimitsTheCount) {
  EXPECT_EQ((Processors{.allowed = {0, 1, 2, 3}, .quota = 0}.count()), 4);
  EXPECT_EQ((Processors{.allowed = {0, 1, 2, 3}, .quota = 2.5}.count()), 2);
  EXPECT_EQ((Processors{.allowed = {0, 1, 2, 3}, .quota = 0.5}.count()), 1);
  EXPECT_EQ((Processors{.allowed = {0}, .quota = 8}.count()), 1);
}

TEST(Processors, AreDividedAmongRanks) {
  const Processors four{.allowed = {0, 1, 2, 3}};
  EXPECT_EQ(threads_of_rank({four}, 0), 4);
  EXPECT_EQ(threads_of_rank({four, four}, 1), 2);
  EXPECT_EQ(threads_of_rank({four, four, four}, 0), 1);
  const Processors left{.allowed = {0, 1}}, right{.allowed = {2, 3}};  // each rank bound to its socket
  EXPECT_EQ(threads_of_rank({left, right}, 0), 2);
  EXPECT_EQ(threads_of_rank({left, four}, 1), 3);
  Processors limited = four;
  limited.quota = 2;
  EXPECT_EQ(threads_of_rank({limited}, 0), 2);
  EXPECT_EQ(threads_of_rank({limited, limited}, 0), 1);
  EXPECT_EQ(threads_of_rank({limited, limited, limited, limited}, 0), 1);
}

}  // namespace

}  // namespace babelring
