#include "tests/reference/closed_backend.h"

#include <sys/mman.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/failure.h"
#include "nmt/ops/every_op.h"
#include "tests/nmt/comm/fake_device_stream.h"

namespace babelring {

namespace {

/// Pages that are shut while nobody uses them: the backend's thread or that of its stream. Outlives the backend: the
/// last Buffer may be dropped after it.
class ShutMemory {
 public:
  void* add(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const int protection = users_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* pages = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) fail("closed backend: no {} bytes", bytes);
    sizes_[pages] = bytes;
    return pages;
  }
  void remove(void* pages) {
    const std::lock_guard lock(mutex_);
    ::munmap(pages, sizes_.extract(pages).mapped());
  }
  void open() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int protection) const {
    for (const auto& [pages, bytes] : sizes_) {
      if (::mprotect(pages, bytes, protection) != 0) fail("closed backend: mprotect of {} bytes", bytes);
    }
  }

  std::mutex mutex_;  // guards what follows
  std::map<void*, std::size_t> sizes_;
  int users_ = 0;
};

template <class Use>
void use_opened(ShutMemory& memory, Use use) {
  memory.open();
  const auto shut = [](ShutMemory* opened) { opened->shut(); };
  const std::unique_ptr<ShutMemory, decltype(shut)> shut_again(&memory, shut);  // also if an op is refused
  use();
}

class ClosedBackend final : public EveryOp<ClosedBackend> {
 public:
  void upload(const void* host, Tensor to) override {
    opened([&] { cpu_->upload(host, to); });
  }
  void download(ConstTensor from, void* host) override {
    opened([&] { cpu_->download(from, host); });
  }
  std::unique_ptr<const PackedWeight> pack(ConstTensor weight) override {
    std::unique_ptr<const PackedWeight> packed;
    opened([&] { packed = cpu_->pack(weight); });
    return packed;
  }
  void synchronize() override {}
  std::string description() const override { return "closed " + cpu_->description(); }
  bool host_memory() const override { return false; }
  std::unique_ptr<DeviceStream> make_stream() override {
    return std::make_unique<FakeDeviceStream>(
        [this](std::size_t bytes) { return allocate(bytes); },
        [memory = memory_](const FakeDeviceStream::Work& work) { use_opened(*memory, work); });
  }
  void launch(const auto& op) {
    opened([&] { cpu_->run(op); });
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override {
    if (bytes == 0) return {};
    return Buffer(memory_->add(bytes), bytes, [memory = memory_](void* pages) { memory->remove(pages); });
  }

  template <class Use>
  void opened(Use use) {
    use_opened(*memory_, use);
  }

  std::shared_ptr<ShutMemory> memory_ = std::make_shared<ShutMemory>();
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

}  // namespace

std::unique_ptr<Backend> make_closed_backend() {
  return std::make_unique<ClosedBackend>();
}

}  // namespace babelring
