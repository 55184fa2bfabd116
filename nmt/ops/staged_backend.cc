#include "nmt/ops/staged_backend.h"

#include <cstring>
#include <utility>

#include "nmt/ops/every_op.h"
#include "nmt/ops/staging.h"

namespace babelring {

namespace {

class StagedBackend final : public EveryOp<StagedBackend> {
 public:
  explicit StagedBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}

  void upload(const void* host, Tensor to) override {
    if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
  }
  void download(ConstTensor from, void* host) override {
    if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
  }
  void synchronize() override {}
  bool prefers_fused_bias_gradients() const override { return device_->prefers_fused_bias_gradients(); }
  std::string description() const override { return "staged " + device_->description(); }

  template <class Op>
  void launch(Op op) {
    Staging staging(*device_);
    staging.stage(op);
    device_->run(op);
    device_->synchronize();
    staging.download();
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }

  std::unique_ptr<Backend> device_;
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device) {
  return std::make_unique<StagedBackend>(std::move(device));
}

}  // namespace babelring
