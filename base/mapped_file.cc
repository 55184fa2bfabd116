#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

struct Guarded {
  std::atomic<const std::byte*> data{nullptr};  // set last
  std::size_t size = 0;
  std::array<char, 1024> file{};
};

// A signal handler can use only global state. If all slots are in use, further mappings are not guarded.
std::array<Guarded, 64> guarded;
std::mutex guarded_mutex;  // not taken by the handler
struct sigaction previous_action{};

iovec part(const char* text) {
  return {.iov_base = const_cast<char*>(text), .iov_len = std::strlen(text)};
}

/// Exits if the fault is in a guarded mapping; otherwise restores the previous handler.
void on_bus_error(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const Guarded& one : guarded) {
    const std::byte* data = one.data.load();
    if (data == nullptr || address < data || address >= data + one.size) continue;
    const std::array<iovec, 3> message{
        part("error: "), part(one.file.data()),
        part(": cannot be read any more: it was truncated or replaced while in use, or its disk fails\n")};
    if (::writev(STDERR_FILENO, message.data(), static_cast<int>(message.size())) < 0) ::_exit(1);
    ::_exit(1);
  }
  ::sigaction(SIGBUS, &previous_action, nullptr);  // the instruction runs again and faults again
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  struct sigaction current{};
  ::sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
  previous_action = current;
  ::sigaction(SIGBUS, &action, nullptr);
}

/// Registers a mapped file with the SIGBUS handler. The kernel sends SIGBUS when a page cannot be read: the file was
/// truncated or its disk failed. The handler then prints one line with the file name to standard error and exits with
/// code 1. Other causes of SIGBUS go to the previous handler.
void guard_mapping(const std::byte* data, std::size_t size, const std::filesystem::path& file) {
  const std::lock_guard lock(guarded_mutex);
  install();
  for (Guarded& one : guarded) {
    if (one.data.load() != nullptr) continue;
    one.size = size;
    const std::string name = file.string().substr(0, one.file.size() - 1);
    std::memcpy(one.file.data(), name.c_str(), name.size() + 1);
    one.data.store(data);
    return;
  }
}

/// Unregisters a mapping. Call before unmapping it.
void unguard_mapping(const std::byte* data) {
  const std::lock_guard lock(guarded_mutex);
  for (Guarded& one : guarded) {
    if (one.data.load() == data) one.data.store(nullptr);
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail("cannot open {}: {}", file.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) fail("cannot stat {}: {}", file.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("cannot map {}: it is not a regular file", file.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) fail("cannot map {} ({} bytes): {}", file.string(), size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
  guard_mapping(data_, size_, file);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  unguard_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void release_pages(std::span<const std::byte> part) {
  void* begin = const_cast<std::byte*>(part.data());
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t left = part.size();
  if (std::align(page, page, begin, left) == nullptr) return;  // no whole page
  ::madvise(begin, left / page * page, MADV_DONTNEED);
}

}  // namespace babelring
