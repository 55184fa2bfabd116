#include "nmt/data/data_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/digest.h"
#include "base/failure.h"
#include "base/result.h"
#include "base/spawn.h"

namespace babelring {
namespace {

std::string error_text() {
  return std::generic_category().message(errno);
}

/// This thread reads from disks only when nobody else does. Errors are ignored.
void read_when_idle() {
  constexpr int of_process = 1, idle_class = 3, class_shift = 13;  // ioprio_set(2), which has no header
  static_cast<void>(::syscall(SYS_ioprio_set, of_process, 0, idle_class << class_shift));
}

}  // namespace

void DataCheck::add(const std::filesystem::path& folder, const std::vector<ManifestFile>& files) {
  for (const ManifestFile& file : files) {
    const std::filesystem::path path = folder / file.name;
    FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) fail("{}: cannot open: {}", path.string(), error_text());
    files_.push_back({path.string(), file.sha256, std::move(opened)});
  }
}

DataCheck::~DataCheck() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void DataCheck::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

bool DataCheck::ended_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return ended_; });
}

Status DataCheck::result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

void DataCheck::run() {
  lower_priority(0, 19);
  read_when_idle();
  Status result;
  try {
    for (const Opened& file : files_) {
      const std::string found = digest_of(file);
      if (found.empty() || found == file.sha256) continue;
      fail("{}: damaged, its SHA-256 is {}, expected {} by its manifest", file.path, found, file.sha256);
    }
  } catch (const std::exception& failure) {
    result = Error{failure.what()};
  }
  const std::lock_guard lock(mutex_);
  damaged_ = !result.ok();
  result_ = std::move(result);
  ended_ = true;
  changed_.notify_all();
}

std::string DataCheck::digest_of(const Opened& opened) const {
  std::vector<char> block(std::size_t{1} << 20);
  Sha256 digest;
  while (!stopping_) {
    const ssize_t got = ::read(opened.file.get(), block.data(), block.size());
    if (got == 0) return digest.hex();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot read: {}", opened.path, error_text());
    digest.add(block.data(), static_cast<std::size_t>(got));
  }
  return "";
}

}  // namespace babelring
