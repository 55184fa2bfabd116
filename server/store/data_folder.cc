#include "server/store/data_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "nmt/base/failure.h"

namespace babelring::store {
namespace {

constexpr std::string_view running = "running\n", ended = "clean\n";
constexpr long lustre_magic = 0x0BD00BD0;

void refuse_network_file_system(const std::filesystem::path& folder) {
  struct statfs status {};
  if (statfs(folder.c_str(), &status) != 0) fail("statfs {}: {}", folder.string(), std::strerror(errno));
  const auto type = static_cast<long>(status.f_type);
  if (type == NFS_SUPER_MAGIC || type == SMB_SUPER_MAGIC || type == lustre_magic) {
    fail("data folder {} is on a network file system; the database needs a local disk (--data)", folder.string());
  }
}

void write_note(int descriptor, std::string_view note) {
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, note.data(), note.size(), 0) < 0 || fsync(descriptor) != 0) {
    fail("data folder: cannot write its lock file: {}", std::strerror(errno));
  }
}

}  // namespace

DataFolder::DataFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  // One that is made here is for its owner alone: whoever reads the database needs no token.
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder_, error);
  if (error) fail("data folder {}: cannot be made: {}", folder_.string(), error.message());
  if (made) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  folder_ = std::filesystem::canonical(folder_);
  refuse_network_file_system(folder_);
  const std::string file = folder_ / "server.lock";
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("open {}: {}", file, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    fail("data folder {} is in use by another server", folder_.string());
  }
  std::array<char, 16> note{};
  const ssize_t size = pread(descriptor_, note.data(), note.size(), 0);
  was_unclean_ = size > 0 && std::string_view(note.data(), static_cast<std::size_t>(size)) != ended;
  write_note(descriptor_, running);
}

DataFolder::~DataFolder() {
  try {
    if (clean_) write_note(descriptor_, ended);
  } catch (const Failure&) {
    // The next start checks the database, which is all that is lost.
  }
  close(descriptor_);
}

std::uintmax_t DataFolder::free_bytes() const {
  return std::filesystem::space(folder_).available;
}

}  // namespace babelring::store
