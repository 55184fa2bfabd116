#include "tests/reference/closed_backend.h"

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "base/failure.h"
#include "nmt/ops/every_op.h"
#include "nmt/ops/op_fields.h"
#include "tests/nmt/comm/fake_device_stream.h"

namespace babelring {

namespace {

/// Set in each address that allocate() gives. No process has memory there: processors with 48 bits of address refuse
/// it, and with 57 bits the kernel maps nothing above the first 48 that was not asked for.
constexpr std::uintptr_t shut_bit = std::uintptr_t{1} << 52;

/// The memory that an address of allocate() stands for. Other addresses stay.
void* open_address(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~shut_bit);
}

template <class View>
View opened(View tensor) {
  tensor.data = open_address(tensor.data);
  return tensor;
}

class ClosedBackend final : public EveryOp<ClosedBackend> {
 public:
  void upload(const void* host, Tensor to) override { cpu_->upload(host, opened(to)); }
  void download(ConstTensor from, void* host) override { cpu_->download(opened(from), host); }
  std::unique_ptr<const PackedWeight> pack(ConstTensor weight) override { return cpu_->pack(opened(weight)); }
  void synchronize() override {}
  std::string description() const override { return "closed " + cpu_->description(); }
  bool host_memory() const override { return false; }
  std::unique_ptr<DeviceStream> make_stream() override {
    return std::make_unique<FakeDeviceStream>([this](std::size_t bytes) { return allocate(bytes); },
                                              [](void* address) { return open_address(address); });
  }
  template <class Op>
  void launch(Op op) {
    for_each_field(op, [](std::string_view, auto& tensor, Access) { tensor.data = open_address(tensor.data); });
    cpu_->run(op);
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override {
    if (bytes == 0) return {};
    void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) fail("closed backend: no {} bytes", bytes);
    void* shut = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(pages) | shut_bit);
    return Buffer(shut, bytes, [bytes](void* address) { ::munmap(open_address(address), bytes); });
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

}  // namespace

std::unique_ptr<Backend> make_closed_backend() {
  return std::make_unique<ClosedBackend>();
}

}  // namespace babelring
