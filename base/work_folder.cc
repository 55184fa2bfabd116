#include "base/work_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view lock_heading = "babelring process ";  // how the content of a lock file begins

std::string work_error(int error) {
  return std::generic_category().message(error);
}

bool is_named(int descriptor, const fs::path& file) {
  struct stat open{}, named{};
  return ::fstat(descriptor, &open) == 0 && ::lstat(file.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

std::string content_of(int descriptor) {
  std::array<char, 512> content{};
  const ssize_t got = ::pread(descriptor, content.data(), content.size(), 0);
  return got > 0 ? std::string(content.data(), static_cast<std::size_t>(got)) : std::string();
}

/// Writes the holder into the lock file.
void write_work_holder(int descriptor, const fs::path& file) {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  const std::string text = fmt::format("{}{} on {}\n", lock_heading, ::getpid(), known ? host.data() : "unknown");
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, text.data(), text.size(), 0) < 0) {
    fail("cannot write {}: {}", file.string(), work_error(errno));
  }
}

bool is_own(const fs::path& folder) {
  std::error_code error;
  return fs::symlink_status(folder, error).type() == fs::file_type::directory &&
         fs::symlink_status(folder / WorkFolder::marker_name, error).type() == fs::file_type::regular;
}

}  // namespace

WorkFolder::WorkFolder(const fs::path& parent, const std::string& name, const std::string& resume)
    : parent_(fs::absolute(parent / "").parent_path()), made_(parent_) {  // without a slash at its end
  std::error_code error;
  while (made_.has_relative_path() && !fs::exists(made_.parent_path(), error)) made_ = made_.parent_path();
  if (fs::exists(made_, error)) made_.clear();
  fs::create_directories(parent_, error);
  if (error) fail("cannot create folder {}: {}", parent_.string(), error.message());
  try {
    lock(parent_ / ("." + name + ".lock"));
    clear_leftovers(name + ".part-", resume);
    if (!path_.empty()) return;
    const fs::path made = parent_ / (name + ".part-" + make_id('w'));
    if (!fs::create_directory(made, error)) fail("cannot create folder {}: {}", made.string(), error.message());
    path_ = made;
    write_file_atomically(path_ / marker_name, resume);
  } catch (...) {
    remove();
    throw;
  }
}

WorkFolder::~WorkFolder() {
  remove();
}

void WorkFolder::remove() const noexcept {
  std::error_code ignored;
  if (removes_ && !path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ && is_named(lock_.get(), lock_file_)) fs::remove(lock_file_, ignored);
  if (made_.empty()) return;
  for (fs::path folder = parent_; fs::remove(folder, ignored) && folder != made_;) folder = folder.parent_path();
}

/// Until the file is locked, its holder may remove it: then another one is made.
void WorkFolder::lock(const fs::path& file) {
  while (true) {
    FileDescriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!opened) fail("cannot open {}: {}", file.string(), work_error(errno));
    const int error = ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    const std::string content = content_of(opened.get());
    if (!content.empty() && !content.starts_with(lock_heading)) {
      fail("{} is not a lock file of this program; choose another output, or move the file away", file.string());
    }
    if (error == EWOULDBLOCK) {
      const std::size_t owner = std::string_view("babelring ").size(), end = content.find('\n');
      throw UsageFailure(fmt::format(
          "{}: {} writes there at the moment; wait until it has ended, or choose another output", parent_.string(),
          end == std::string::npos ? "another process" : printable(content.substr(owner, end - owner))));
    }
    if (error == EINTR) continue;
    if (error != 0) {
      spdlog::warn("{} cannot be locked ({}), so a second process there will not be noticed", file.string(),
                   work_error(error));
      return;
    }
    if (!is_named(opened.get(), file)) continue;
    write_work_holder(opened.get(), file);
    lock_file_ = file;
    lock_ = std::move(opened);
    return;
  }
}

void WorkFolder::clear_leftovers(const std::string& prefix, const std::string& resume) {
  if (!lock_) return;
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent_, error)) {
    if (entry.path().filename().string().starts_with(prefix) && is_own(entry.path())) found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    if (!resume.empty() && path_.empty() && read_file(folder / marker_name) == resume) {
      path_ = folder;
      continue;
    }
    spdlog::info("removing {}, left by an interrupted process", folder.string());
    fs::remove_all(folder, error);
    if (error) spdlog::warn("cannot remove {}: {}", folder.string(), error.message());
  }
}

void WorkFolder::publish(const fs::path& target) {
  std::error_code error;
  fs::remove(path_ / marker_name, error);
  if (error) fail("cannot remove {}: {}", (path_ / marker_name).string(), error.message());
  sync_folder(path_);
  // File systems that cannot rename without replacing (NFS) replace at most an empty folder.
  int failed = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (failed == EINVAL || failed == ENOSYS) {
    failed = fs::exists(fs::symlink_status(target, error))  ? EEXIST
             : ::rename(path_.c_str(), target.c_str()) == 0 ? 0
                                                            : errno;
  }
  if (failed == EEXIST) fail("{} exists already", target.string());
  if (failed != 0) fail("cannot rename {} to {}: {}", path_.string(), target.string(), work_error(failed));
  path_.clear();
  sync_folder(fs::absolute(target).parent_path());
}

}  // namespace babelring
