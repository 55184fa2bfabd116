#include "nmt/ops/dry_backend.h"

#include <cstdint>
#include <cstring>

#include "nmt/ops/every_op.h"

namespace babelring {

namespace {

class DryBackend : public EveryOp<DryBackend> {
 public:
  DryBackend(const MemoryInfo& room, Backend* like)
      : room_(room), like_(like), next_(like == nullptr ? first_address : first_address_like) {}

  void upload(const void*, Tensor) override {}
  void download(ConstTensor from, void* host) override { std::memset(host, 0, from.bytes()); }
  void synchronize() override {}
  std::string description() const override { return "dry"; }
  bool host_memory() const override { return false; }
  bool pads_rows() const override { return like_ == nullptr || like_->pads_rows(); }
  MemoryInfo memory() const override { return room_; }
  bool prefers_fused_matmuls() const override { return like_ != nullptr && like_->prefers_fused_matmuls(); }
  bool prefers_fused_bias_gradients() const override {
    return like_ != nullptr && like_->prefers_fused_bias_gradients();
  }
  LossChunks loss_chunks() const override { return like_ == nullptr ? LossChunks() : like_->loss_chunks(); }
  void launch(const auto&) {}

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override {
    if (bytes == 0) return {};
    void* const address = reinterpret_cast<void*>(next_);  // NOLINT: never read or written
    next_ += (bytes + alignment - 1) / alignment * alignment;
    return Buffer(address, bytes, [](void*) {});
  }

  // Addresses beyond those of any process on today's processors, so that even models that exceed the process's limits
  // can be measured. A backend that is like another has addresses apart, because the model may be in the other's
  // memory.
  static constexpr std::uintptr_t first_address = std::uintptr_t{1} << 60, first_address_like = std::uintptr_t{1} << 61;
  static constexpr std::size_t alignment = 256;

  MemoryInfo room_;
  Backend* like_;
  std::uintptr_t next_;  // no address is given out twice
};

class DryDevice final : public DryBackend {
 public:
  DryDevice() : DryBackend({}, nullptr) {}
  bool pads_rows() const override { return false; }
  bool prefers_fused_matmuls() const override { return true; }
  bool prefers_fused_bias_gradients() const override { return true; }
  LossChunks loss_chunks() const override { return LossChunks::on_device(std::size_t{1} << 40); }
};

}  // namespace

std::unique_ptr<Backend> make_dry_backend(const MemoryInfo& room, Backend* like) {
  return std::make_unique<DryBackend>(room, like);
}

std::unique_ptr<Backend> make_dry_device() {
  return std::make_unique<DryDevice>();
}

}  // namespace babelring
