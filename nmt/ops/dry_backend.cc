#include "nmt/ops/dry_backend.h"

#include <sys/mman.h>

#include <cstring>

#include "base/failure.h"

namespace babelring {

namespace {

class DryBackend final : public Backend {
 public:
  DryBackend(const MemoryInfo& room, Backend* like) : room_(room), like_(like) {}

  Buffer allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    // Addresses that nobody else has, and no pages behind them.
    void* address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) fail("a dry run finds no {} bytes of addresses", bytes);
    return Buffer(address, bytes, [bytes](void* addresses) { ::munmap(addresses, bytes); });
  }
  void upload(const void*, Tensor) override {}
  void download(ConstTensor from, void* host) override { std::memset(host, 0, from.bytes()); }
  void synchronize() override {}
  std::string description() const override { return "dry"; }
  bool host_memory() const override { return false; }
  bool pads_rows() const override { return like_ == nullptr || like_->pads_rows(); }
  MemoryInfo memory() const override { return room_; }
  std::int64_t relu_mask_words(const LinearForward& op) override {
    return like_ == nullptr ? 0 : like_->relu_mask_words(op);
  }
  bool joins_products() const override { return like_ != nullptr && like_->joins_products(); }
  LossChunks loss_chunks() const override { return like_ == nullptr ? LossChunks() : like_->loss_chunks(); }

 private:
  void do_run(const LinearForward&) override {}
  void do_run(const LinearBackwardData&) override {}
  void do_run(const LinearBackwardWeight&) override {}
  void do_run(const LayerNormForward&) override {}
  void do_run(const ResidualNormForward&) override {}
  void do_run(const LayerNormBackward&) override {}
  void do_run(const Dropout&) override {}
  void do_run(const ResidualDropout&) override {}
  void do_run(const EmbeddingForward&) override {}
  void do_run(const EmbeddingBackward&) override {}
  void do_run(const AttentionForward&) override {}
  void do_run(const AttentionBackward&) override {}
  void do_run(const DecodeAttention&) override {}
  void do_run(const CrossEntropy&) override {}
  void do_run(const LogSoftmaxTopK&) override {}
  void do_run(const AdamUpdate&) override {}
  void do_run(const SquaredNorm&) override {}
  void do_run(const SumWithNorm&) override {}
  void do_run(const Cast&) override {}
  void do_run(const Fill&) override {}
  void do_run(const Add&) override {}

  MemoryInfo room_;
  Backend* like_;
};

}  // namespace

std::unique_ptr<Backend> make_dry_backend(const MemoryInfo& room, Backend* like) {
  return std::make_unique<DryBackend>(room, like);
}

}  // namespace babelring
