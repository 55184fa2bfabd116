#include "worker/folder_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/json.h"

namespace babelring {
namespace {

constexpr const char* lock_file_name = "run.lock";

std::string lock_error() {
  return std::generic_category().message(errno);
}

std::string own_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

int open_lock_file(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    fail("run folder {}: cannot open {}: {}", file.parent_path().string(), lock_file_name, lock_error());
  return descriptor;
}

bool same_file(int descriptor, const std::filesystem::path& file) {
  struct stat open{}, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

LockHolder read_lock_holder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / lock_file_name, error)) return {};
  const Result<json::value> value = parse_json(read_file(folder / lock_file_name));
  const json::object* object = value.ok() ? value->if_object() : nullptr;
  const json::value* pid = object != nullptr ? object->if_contains("pid") : nullptr;
  const json::value* host = object != nullptr ? object->if_contains("host") : nullptr;
  if (pid == nullptr || host == nullptr || !pid->is_int64() || !host->is_string()) return {};
  return {.pid = pid->get_int64(), .host = std::string(host->get_string())};
}

FolderLock::FolderLock(const std::filesystem::path& folder, const Options& options) : file_(folder / lock_file_name) {
  for (const Stopwatch watch; !try_lock();) {
    if (watch.elapsed_ms() < static_cast<double>(options.patience.count())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    const LockHolder holder = read_lock_holder(folder);
    const std::string who =
        holder.host.empty() ? "another process" : fmt::format("process {} on {}", holder.pid, holder.host);
    if (!options.take_over) {
      throw UsageFailure(
          fmt::format("run folder {}: {} trains there: stop it first, or start with --take-over, which stops it at its "
                      "next checkpoint",
                      folder.string(), who));
    }
    spdlog::warn("run folder {}: taken over from {}, which stops at its next checkpoint", folder.string(), who);
    replace();
    return;
  }
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// Returns false if another process holds the lock.
bool FolderLock::try_lock() {
  const int descriptor = open_lock_file(file_);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(descriptor);
    if (error == EWOULDBLOCK || error == EINTR) return false;
    spdlog::warn("run folder {}: cannot be locked ({}), so a second worker there will not be detected",
                 file_.parent_path().string(), std::generic_category().message(error));
    return true;
  }
  if (!same_file(descriptor, file_)) {  // replaced between the two calls
    ::close(descriptor);
    return false;
  }
  descriptor_ = descriptor;
  write_holder();
  return true;
}

/// Renames a new, locked file over the lock file. The old holder keeps a lock on a file without a name.
void FolderLock::replace() {
  const std::filesystem::path temporary = fmt::format("{}.{}.{}", file_.string(), own_host(), getpid());
  descriptor_ = open_lock_file(temporary);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) fail("cannot lock {}: {}", temporary.string(), lock_error());
  write_holder();
  std::filesystem::rename(temporary, file_);
}

void FolderLock::write_holder() const {
  const std::string text = to_text(json::object{{"pid", getpid()}, {"host", own_host()}}) + "\n";
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) {
    spdlog::warn("{}: cannot write the lock holder: {}", file_.string(), lock_error());
  }
}

bool FolderLock::held() const {
  std::error_code error;
  return descriptor_ < 0 || !std::filesystem::exists(file_, error) || same_file(descriptor_, file_);
}

}  // namespace babelring
