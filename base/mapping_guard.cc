#include "base/mapping_guard.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

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
struct sigaction before{};

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
  ::sigaction(SIGBUS, &before, nullptr);  // the instruction runs again and faults again
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  struct sigaction current{};
  ::sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
  before = current;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

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

void unguard_mapping(const std::byte* data) {
  const std::lock_guard lock(guarded_mutex);
  for (Guarded& one : guarded) {
    if (one.data.load() == data) one.data.store(nullptr);
  }
}

}  // namespace babelring
