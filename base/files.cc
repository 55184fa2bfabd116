#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/failure.h"
#include "base/write_watch.h"

namespace babelring {
namespace {

std::string system_error() {
  return std::generic_category().message(errno);
}

/// A rename would replace a device (/dev/null), a pipe or a link to one (/dev/stdout) by a file.
bool is_special(const std::filesystem::path& target) {
  std::error_code no_link;
  if (std::filesystem::read_symlink(target, no_link).string().starts_with("/proc/")) return true;
  struct stat status{};
  if (::stat(target.c_str(), &status) != 0) return false;
  return !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target, bool only_owner) : target_(std::move(target)) {
  if (is_special(target_)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("write {}: {}", target_.string(), system_error());
    return;
  }
  temporary_ = target_.string() + ".tmp." + std::to_string(::getpid());
  const WatchedCall watched;
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, only_owner ? 0600 : 0644);
  if (descriptor_ < 0) fail("write {}: cannot create {}: {}", target_.string(), temporary_.string(), system_error());
  if (only_owner && ::fchmod(descriptor_, 0600) != 0) {  // an older temporary file may have another mode
    fail("write {}: cannot set the mode of {}: {}", target_.string(), temporary_.string(), system_error());
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (descriptor_ < 0) fail("write {}: written after commit", target_.string());
  constexpr std::size_t max_piece = std::size_t{16} << 20;  // so that a WriteWatch sees a slow disk move
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const WatchedCall watched;
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, max_piece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write {}: {} bytes left: {}", target_.string(), bytes, system_error());
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::sync() {
  if (descriptor_ < 0) fail("write {}: committed twice", target_.string());
  const WatchedCall watched;
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail("write {}: fsync: {}", target_.string(), system_error());
}

void AtomicFile::commit() {
  sync();
  if (temporary_.empty()) {
    ::close(std::exchange(descriptor_, -1));
    return;
  }
  const WatchedCall watched;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    fail("write {}: rename: {}", target_.string(), system_error());
  ::close(std::exchange(descriptor_, -1));
  const auto folder = target_.parent_path();
  sync_folder(folder.empty() ? std::filesystem::path(".") : folder);
}

void AtomicFile::take_back() {
  if (descriptor_ < 0 && !temporary_.empty()) ::unlink(target_.c_str());
}

void AtomicFile::commit_both(AtomicFile& first, AtomicFile& second) {
  first.sync();
  second.sync();
  try {
    first.commit();
    second.commit();
  } catch (...) {
    second.take_back();
    first.take_back();
    throw;
  }
}

void write_file_atomically(const std::filesystem::path& target, std::string_view content) {
  AtomicFile file(target);
  file.write(content);
  file.commit();
}

void write_private_file(const std::filesystem::path& target, std::string_view content) {
  AtomicFile file(target, true);
  file.write(content);
  file.commit();
}

std::string read_file(const std::filesystem::path& file) {
  const FileDescriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) fail("read {}: {}", file.string(), system_error());
  std::string content;
  struct stat status{};
  if (::fstat(in.get(), &status) == 0 && status.st_size > 0) content.reserve(static_cast<std::size_t>(status.st_size));
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(in.get(), block, sizeof block);
    if (got == 0) return content;
    if (got > 0) {
      content.append(block, static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      fail("read {}: {}", file.string(), system_error());
    }
  }
}

namespace {

void sync_path(const char* kind, const std::filesystem::path& path, int flags) {
  const FileDescriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (in.get() < 0) fail("sync {} {}: {}", kind, path.string(), system_error());
  const WatchedCall watched;
  if (::fsync(in.get()) != 0) fail("sync {} {}: {}", kind, path.string(), system_error());
}

}  // namespace

void sync_file(const std::filesystem::path& file) {
  sync_path("file", file, 0);
}

void sync_folder(const std::filesystem::path& folder) {
  sync_path("folder", folder, O_DIRECTORY);
}

namespace {

struct Known {
  unsigned magic;
  DiskType type;
};

/// statfs(2); linux/magic.h
constexpr std::array<Known, 8> known_types = {{{0x6969, {FileSystemKind::network, "NFS"}},
                                               {0xff534d42, {FileSystemKind::network, "CIFS"}},
                                               {0xfe534d42, {FileSystemKind::network, "SMB2"}},
                                               {0x517b, {FileSystemKind::network, "SMB"}},
                                               {0x0bd00bd0, {FileSystemKind::network, "Lustre"}},
                                               {0x00c36400, {FileSystemKind::network, "Ceph"}},
                                               {0x65735546, {FileSystemKind::unknown, "FUSE"}},
                                               {0x01021997, {FileSystemKind::unknown, "9P"}}}};

}  // namespace

std::filesystem::path existing_folder(const std::filesystem::path& wanted) {
  std::filesystem::path folder = std::filesystem::absolute(wanted).lexically_normal();
  std::error_code error;
  while (!std::filesystem::is_directory(folder, error) && folder != folder.parent_path()) folder = folder.parent_path();
  return folder;
}

DiskType disk_type(const std::filesystem::path& folder) {
  struct statfs status{};
  if (::statfs(existing_folder(folder).c_str(), &status) != 0) return {};
  return disk_type_of(static_cast<unsigned>(status.f_type));
}

DiskType disk_type_of(unsigned magic) {
  const auto* found =
      std::find_if(known_types.begin(), known_types.end(), [&](const Known& one) { return one.magic == magic; });
  return found == known_types.end() ? DiskType() : found->type;
}

}  // namespace babelring
