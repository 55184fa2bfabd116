#include "nmt/comm/shared/comm_memory.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/failure.h"

namespace babelring {

// All accesses are sequentially consistent: wait() sets sleeping_ before it reads the count, and ring() increments the
// count before it reads sleeping_. So either ring() sees the sleeper, or the sleeper sees the new count.

void EventCount::notify() {
  count_.fetch_add(1);
  if (sleeping_.load() != 0) syscall(SYS_futex, &count_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void EventCount::wait(std::uint32_t seen, std::chrono::microseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = std::chrono::nanoseconds(timeout - seconds).count();
  sleeping_.store(1);
  syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &limit, nullptr, 0);  // returns at once if the count is not `seen`
  sleeping_.store(0);
}

namespace {

/// Zeroed memory whose pages take none until they are written.
Buffer allocate_sparse(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) fail("out of memory: {} bytes were needed by a communicator", bytes);
  return Buffer(data, bytes, [bytes](void* memory) { ::munmap(memory, bytes); });
}

class PrivateMemory final : public CommMemory {
 public:
  explicit PrivateMemory(Buffer buffer) : buffer_(std::move(buffer)) {}
  char* data() const override { return static_cast<char*>(buffer_.data()); }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  Buffer buffer_;
};

}  // namespace

float* CommMemory::error_of(const float* value) {
  if (errors_.data() == nullptr) errors_ = allocate_sparse(std::max<std::size_t>(bytes(), sizeof(float)));
  return reinterpret_cast<float*>(static_cast<char*>(errors_.data()) + (reinterpret_cast<const char*>(value) - data()));
}

Buffer owning_buffer(std::shared_ptr<CommMemory> memory) {
  char* data = memory->data();
  const std::size_t bytes = memory->bytes();
  return Buffer(data, bytes, [owner = std::move(memory)](void*) mutable { owner.reset(); });
}

Buffer MemoryRegistry::add(const std::shared_ptr<CommMemory>& memory) {
  std::erase_if(known_, [](const auto& block) { return block.expired(); });
  known_.push_back(memory);
  return owning_buffer(memory);
}

std::shared_ptr<CommMemory> MemoryRegistry::find(const Tensor& tensor) const {
  const char* begin = static_cast<const char*>(tensor.data);
  for (const auto& block : known_) {
    const auto memory = block.lock();
    if (!memory || begin < memory->data()) continue;
    if (begin + tensor.bytes() <= memory->data() + memory->bytes()) return memory;
  }
  return nullptr;
}

std::shared_ptr<CommMemory> MemoryRegistry::of_floats(std::string_view call, const Tensor& tensor) const {
  if (tensor.dtype != DType::f32 || !tensor.contiguous()) {
    fail("{}: tensor is {} {}{}, expected contiguous f32", call, name_of(tensor.dtype), tensor.shape.text(),
         tensor.contiguous() ? "" : " strided");
  }
  auto memory = find(tensor);
  if (memory == nullptr && tensor.shape.elements() > 0) {
    fail("{}: tensor {} lies outside the memory from allocate()", call, tensor.shape.text());
  }
  return memory;
}

void MemoryRegistry::forget_errors() const {
  for (const auto& block : known_) {
    if (const auto memory = block.lock()) memory->forget_errors();
  }
}

std::shared_ptr<CommMemory> make_private_memory(std::size_t bytes) {
  return std::make_shared<PrivateMemory>(allocate_host(bytes));
}

std::shared_ptr<CommMemory> make_sparse_memory(std::size_t bytes) {
  return std::make_shared<PrivateMemory>(allocate_sparse(bytes));
}

std::shared_ptr<SharedFile> share_on_host(Communicator& communicator, std::size_t bytes, const std::string& key,
                                          const std::function<void(char*)>& prepare) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::string own = fmt::format("{} {} {}", communicator.hosts()[rank], bytes, key);
  const std::vector<std::string> requests = communicator.all_gather(own);
  const auto creator = static_cast<std::size_t>(std::find(requests.begin(), requests.end(), own) - requests.begin());
  const bool alone = std::count(requests.begin(), requests.end(), own) == 1;
  std::shared_ptr<SharedFile> file;
  if (creator == rank && !alone) file = SharedFile::create(bytes);
  if (file) prepare(file->data());
  const std::vector<std::string> invitations = communicator.all_gather(file ? file->invitation() : "");
  if (creator != rank) file = SharedFile::open(invitations[creator]);
  if (!file && communicator.local_size() > 1) {
    spdlog::warn("rank {} cannot share memory with the other ranks of {}: its own copy takes up to {} MB", rank,
                 communicator.hosts()[rank], bytes >> 20);
  }
  return file;
}

}  // namespace babelring
