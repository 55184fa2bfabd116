#include "worker/host_folders.h"
#include "base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/failure.h"
#include "base/records/records.h"
#include "base/result.h"
#include "worker/run_folder.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string run_a = make_id('r'), run_b = make_id('r');

HostFolder first_host(const std::string& run, std::int64_t checkpoint) {
  return {.run = run,
          .attempt = 1,
          .first_host = "hostA",
          .run_file = true,
          .checkpoints = true,
          .newest_checkpoint = checkpoint};
}

HostFolder other_host(const std::string& run) {
  return {.run = run, .attempt = 1, .first_host = "hostA", .run_file = true};
}

/// With hosts hostA, hostB, … in that order, but for `hosts`.
std::string why_not(const std::vector<HostFolder>& folders, std::vector<std::string> hosts = {"hostA", "hostB"},
                    const std::string& wanted = "", bool from_checkpoint = false) {
  hosts.resize(folders.size());
  const Status status = check_host_folders("runs/x", folders, hosts, wanted, from_checkpoint);
  return status ? "" : status.error();
}

TEST(HostFolders, ANewRunAndTheSameHostsAreAccepted) {
  EXPECT_EQ(why_not({{}, {}}), "");
  EXPECT_EQ(why_not({first_host(run_a, 40), other_host(run_a)}), "");
  EXPECT_EQ(why_not({first_host(run_a, 40), {}}), "") << "a host that joins";
  EXPECT_EQ(why_not({first_host(run_a, 0), other_host(run_a)}), "") << "no checkpoint yet";
  EXPECT_EQ(why_not({first_host(run_a, 40), first_host(run_a, 40)}, {"hostB", "hostA"}), "") << "a shared file system";
  EXPECT_EQ(why_not({first_host(run_a, 40)}, {"hostA"}, run_a), "");
}

TEST(HostFolders, DifferentRunsAreNamed) {
  EXPECT_EQ(why_not({first_host(run_a, 40), other_host(run_b)}), "run folder runs/x: hostA has run " + run_a +
                                                                     ", hostB has run " + run_b +
                                                                     ": give all hosts the folder of one run");
  EXPECT_THAT(why_not({first_host(run_a, 40)}, {"hostA"}, run_b),
              HasSubstr("hostA has run " + run_a + ", expected " + run_b));
}

TEST(HostFolders, ASpoolWithoutRunFileNeedsAHostWithTheRun) {
  const HostFolder spool{.run = run_a, .attempt = 2};
  EXPECT_EQ(why_not({first_host(run_a, 40), spool}), "") << "version 0.1 left run.json on the first host only";
  EXPECT_EQ(why_not({spool}, {"hostA"}, run_a), "");
  EXPECT_THAT(why_not({spool}, {"hostB"}),
              HasSubstr("hostB has a spool of run " + run_a + ", attempt 2, but no run.json"));
  EXPECT_THAT(why_not({first_host(run_b, 40), spool}), HasSubstr("hostB has a spool of run " + run_a));
}

TEST(HostFolders, CheckpointsMustBeOnTheHostOfRankZero) {
  EXPECT_THAT(why_not({other_host(run_a), first_host(run_a, 40)}, {"hostB", "hostA"}),
              HasSubstr("the newest checkpoint of run " + run_a + ", update 40, is on hostA, not on hostB"));
  EXPECT_THAT(why_not({first_host(run_a, 20), first_host(run_a, 40)}, {"hostB", "hostA"}),
              HasSubstr("update 40, is on hostA"));
  EXPECT_THAT(why_not({other_host(run_a)}, {"hostB"}),
              HasSubstr("run " + run_a + " has its checkpoints on hostA, where rank 0 was, not on hostB"));
  EXPECT_THAT(why_not({{}, first_host(run_a, 0)}, {"hostB", "hostA"}),
              HasSubstr("hostA has run " + run_a + ", but hostB has no run.json"));
  EXPECT_EQ(why_not({other_host(run_a)}, {"hostB"}, run_a, true), "") << "the checkpoint is named";
}

class LookIntoTest : public ::testing::Test {
 protected:
  LookIntoTest() {
    std::string name = fs::temp_directory_path() / "babelring-hosts-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~LookIntoTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(LookIntoTest, FindsRunFileAndCheckpoints) {
  EXPECT_EQ(inspect_run_folder(folder_), HostFolder());
  EXPECT_EQ(inspect_run_folder(folder_ / "absent"), HostFolder());
  write_run_file(folder_, {run_a, 3, "hostA"});
  for (const char* name : {"update-00000020", "update-00000100", "update-00000200.tmp", "best"}) {
    fs::create_directories(folder_ / "checkpoints" / name);
  }
  const HostFolder found = inspect_run_folder(folder_);
  EXPECT_EQ(found, (HostFolder{.run = run_a,
                               .attempt = 3,
                               .first_host = "hostA",
                               .run_file = true,
                               .checkpoints = true,
                               .newest_checkpoint = 100}));
  EXPECT_EQ(host_folder_from_json(to_json(found)), found);
}

TEST_F(LookIntoTest, FindsTheRunInASpool) {
  fs::create_directories(folder_ / "spool/attempt-2");
  fs::create_directories(folder_ / "spool/attempt-10");
  EXPECT_EQ(inspect_run_folder(folder_), (HostFolder{.run = "?", .attempt = 10}));
  std::ofstream(folder_ / "spool/attempt-10/rank-1.jsonl") << "{\"run\":\"" << run_a << "\",\"attempt\":10}\n";
  EXPECT_EQ(inspect_run_folder(folder_), (HostFolder{.run = run_a, .attempt = 10}));
}

TEST_F(LookIntoTest, ADamagedRunFileIsAnError) {
  std::ofstream(folder_ / "run.json") << "{";
  EXPECT_THROW(inspect_run_folder(folder_), Failure);
}

}  // namespace
}  // namespace babelring
