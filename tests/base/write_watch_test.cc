#include "base/write_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/files.h"
#include "tests/soon.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using std::chrono::milliseconds;

TEST(WriteWatch, SaysOnceThatACallTakesLongAndThatItHasReturned) {
  const LogCapture log;
  WriteWatch watch("spool x", milliseconds(20));
  std::atomic<bool> hangs = true, over = false;
  std::thread writer([&] {
    const WriteWatch::Scope scope(watch);
    {
      const WatchedCall call;
      const WatchedCall within;
      while (hangs) std::this_thread::sleep_for(milliseconds(1));
    }
    while (!over) std::this_thread::sleep_for(milliseconds(1));
  });
  EXPECT_TRUE(soon([&] { return log.text().find("spool x: a write has taken 0.02 s") != std::string::npos; }));
  EXPECT_TRUE(watch.late());
  std::this_thread::sleep_for(milliseconds(50));
  hangs = false;
  EXPECT_TRUE(soon([&] { return log.text().find("spool x: the write has returned after") != std::string::npos; }));
  EXPECT_FALSE(watch.late());
  over = true;
  writer.join();
  const std::string text = log.text();
  EXPECT_EQ(text.find("a write has taken"), text.rfind("a write has taken"));
}

TEST(WriteWatch, SeesOnlyTheCallsOfItsScope) {
  WriteWatch watch("spool x", milliseconds(1));
  {
    const WatchedCall outside;
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(watch.late());
  }
  const WriteWatch::Scope scope(watch);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(watch.late()) << "no call is in progress";
}

TEST(NetworkDisk, IsKnownByItsType) {
  struct Case {
    unsigned magic;
    FileSystemKind place;
    const char* name;
  };
  for (const auto& [magic, place, name] : {Case{0x6969, FileSystemKind::network, "NFS"},
                                           {0xff534d42, FileSystemKind::network, "CIFS"},
                                           {0xfe534d42, FileSystemKind::network, "SMB2"},
                                           {0x00c36400, FileSystemKind::network, "Ceph"},
                                           {0x0bd00bd0, FileSystemKind::network, "Lustre"},
                                           {0x01021997, FileSystemKind::unknown, "9P"},
                                           {0x65735546, FileSystemKind::unknown, "FUSE"},
                                           {0xef53, FileSystemKind::local, ""}}) {
    EXPECT_EQ(disk_type_of(magic).kind, place) << name;
    EXPECT_EQ(disk_type_of(magic).name, name);
  }
}

TEST(NetworkDisk, AMissingFolderIsWhereItsParentIs) {
  EXPECT_EQ(existing_folder("/proc/self/no/such/folder"), "/proc/self");
  EXPECT_EQ(disk_type("/proc/self/no/such/folder").kind, FileSystemKind::local);
  EXPECT_EQ(existing_folder("/proc/version/below"), "/proc");
}

}  // namespace
}  // namespace babelring
