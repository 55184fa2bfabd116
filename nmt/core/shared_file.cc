#include "nmt/core/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <random>
#include <sstream>
#include <system_error>

#include "base/clock.h"
#include "base/failure.h"

namespace babelring {
namespace {

void check_pthread(int error, const char* call) {
  if (error != 0) fail("{}: {}", call, std::generic_category().message(error));
}

/// The wall-clock time in `wait`. If somebody sets the clock, one wait is shorter or longer, no more.
timespec wall_time_in(std::chrono::milliseconds wait) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const std::chrono::nanoseconds sum = std::chrono::nanoseconds(time.tv_nsec) + wait;
  time.tv_sec += std::chrono::floor<std::chrono::seconds>(sum).count();
  time.tv_nsec = (sum % std::chrono::seconds(1)).count();
  return time;
}

}  // namespace

ProcessMutex::ProcessMutex() {
  pthread_mutexattr_t attributes;
  check_pthread(pthread_mutexattr_init(&attributes), "pthread_mutexattr_init");
  check_pthread(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "pthread_mutexattr_setpshared");
  check_pthread(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "pthread_mutexattr_setrobust");
  check_pthread(pthread_mutex_init(&mutex_, &attributes), "pthread_mutex_init");
  pthread_mutexattr_destroy(&attributes);
}

void ProcessMutex::lock(std::chrono::milliseconds limit, std::string_view purpose) {
  const Stopwatch waited;
  for (;;) {
    const timespec until = wall_time_in(std::min<std::chrono::milliseconds>(limit, std::chrono::seconds(1)));
    int error = pthread_mutex_timedlock(&mutex_, &until);
    if (error == EOWNERDEAD) error = pthread_mutex_consistent(&mutex_);
    if (error == 0) break;
    if (error != ETIMEDOUT) check_pthread(error, "pthread_mutex_timedlock");
    if (waited.elapsed_ms() >= static_cast<double>(limit.count())) {
      fail("{}: process {} of this host has held it for {:.0f} s", purpose, holder_.load(), waited.elapsed_ms() / 1000);
    }
  }
  holder_ = getpid();
}

void ProcessMutex::unlock() {
  pthread_mutex_unlock(&mutex_);
}

namespace {

/// Reserves `bytes` of address space, aligned to a huge page, or returns null. The kernel maps huge pages only where
/// file offset and address have the same alignment.
char* reserve_addresses(std::size_t bytes) {
  void* place = mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(place);
  const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(first) % huge_page) % huge_page;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, huge_page - before);
  return first + before;
}

constexpr int no_descriptor = -1;    // of private memory
constexpr int collapse_advice = 25;  // MADV_COLLAPSE, since Linux 6.1; older headers lack it

}  // namespace

std::shared_ptr<SharedFile> SharedFile::map(int descriptor, std::size_t bytes) {
  const std::size_t all = (header_bytes + bytes + 4095) / 4096 * 4096;
  const int kind = descriptor == no_descriptor ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  char* place = reserve_addresses(all);
  if (place == nullptr || mmap(place, all, PROT_READ | PROT_WRITE, kind | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
    if (place != nullptr) munmap(place, all);
    if (descriptor != no_descriptor) close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<SharedFile>(new SharedFile(descriptor, place, bytes));
}

std::shared_ptr<SharedFile> SharedFile::create(std::size_t bytes) {
  const int descriptor = memfd_create("babelring", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (ftruncate(descriptor, static_cast<off_t>(header_bytes + bytes)) != 0) {
    close(descriptor);
    return nullptr;
  }
  auto file = map(descriptor, bytes);
  std::random_device random;
  if (file) file->token() = (std::uint64_t{random()} << 32) | random();
  return file;
}

std::shared_ptr<SharedFile> SharedFile::create_private(std::size_t bytes) {
  auto file = map(no_descriptor, bytes);
  if (!file) fail("memory of {} bytes cannot be mapped", bytes);
  return file;
}

std::shared_ptr<SharedFile> SharedFile::open(const std::string& invitation) {
  std::istringstream words(invitation);
  long process = 0;
  int descriptor = 0;
  std::size_t bytes = 0;
  std::uint64_t token = 0;
  if (!(words >> process >> descriptor >> bytes >> token)) return nullptr;
  const int own = ::open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return nullptr;
  // On another machine the same process and descriptor numbers may refer to any file.
  struct stat status{};
  if (fstat(own, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(header_bytes + bytes)) {
    close(own);
    return nullptr;
  }
  auto file = map(own, bytes);
  return file && file->token() == token ? file : nullptr;
}

SharedFile::~SharedFile() {
  munmap(mapping_, header_bytes + bytes_);
  if (descriptor_ != no_descriptor) close(descriptor_);
}

std::string SharedFile::invitation() const {
  if (descriptor_ == no_descriptor) return "";
  return fmt::format("{} {} {} {}", getpid(), descriptor_, bytes_, token());
}

bool SharedFile::allocate(std::size_t offset, std::size_t bytes) const {
  return bytes == 0 || descriptor_ == no_descriptor ||
         fallocate(descriptor_, 0, static_cast<off_t>(header_bytes + offset), static_cast<off_t>(bytes)) == 0;
}

void SharedFile::release(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = (offset + 4095) / 4096 * 4096, end = (offset + bytes) / 4096 * 4096;
  if (begin >= end) return;
  if (descriptor_ == no_descriptor) {
    madvise(data() + begin, end - begin, MADV_DONTNEED);
  } else {
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(header_bytes + begin),
              static_cast<off_t>(end - begin));
  }
}

bool SharedFile::reserve(std::size_t offset, std::size_t bytes) const {
  if (!allocate(offset, bytes)) return false;
  // Only advice: small pages work too, but slower. Most systems set huge pages for shared memory to "never".
  // MADV_COLLAPSE overrides that setting; other advice does not.
  const std::size_t begin = (offset + huge_page - 1) / huge_page * huge_page;
  const std::size_t end = (offset + bytes) / huge_page * huge_page;
  if (begin < end) madvise(data() + begin, end - begin, collapse_advice);
  return true;
}

}  // namespace babelring
