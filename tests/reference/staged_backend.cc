#include "tests/reference/staged_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace babelring {

namespace {

/// Bytes of host memory that hang together, and their copy on the device. Views that overlap share a copy.
struct Region {
  char* begin = nullptr;
  char* end = nullptr;
  Buffer copy;

  /// Of the first byte in the copy, which is aligned as it is on the host.
  std::size_t offset() const { return reinterpret_cast<std::uintptr_t>(begin) % 64; }
  char* at_device() const { return static_cast<char*>(copy.data()) + offset(); }
  Tensor elements() const {
    return Tensor(at_device(), Shape{(end - begin) / 2}, DType::bf16);  // of any type: bytes are copied
  }
};

/// Copies of what an op's tensors lie in.
class Staging {
 public:
  explicit Staging(Backend& device) : device_(device) {}

  void add(const ConstTensor& view) {
    if (!view || view.shape.elements() == 0) return;
    char* begin = const_cast<char*>(view.as<char>());
    const std::int64_t elements = (view.rows() - 1) * view.row_stride + view.columns();
    regions_.push_back({begin, begin + static_cast<std::size_t>(elements) * size_of(view.dtype), {}});
  }
  void upload() {
    std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::vector<Region> apart;
    for (Region& region : regions_) {
      if (!apart.empty() && region.begin < apart.back().end) {
        apart.back().end = std::max(apart.back().end, region.end);
      } else {
        apart.push_back(std::move(region));
      }
    }
    regions_ = std::move(apart);
    for (Region& region : regions_) {
      region.copy = device_.allocate(region.offset() + static_cast<std::size_t>(region.end - region.begin));
      device_.upload(region.begin, region.elements());
    }
  }
  /// The same view of the copy.
  template <class View>
  void move_to_device(View& view) const {
    if (!view || view.shape.elements() == 0) return;
    const auto* place = static_cast<const char*>(view.data);
    for (const Region& region : regions_) {
      if (place < region.begin || place >= region.end) continue;
      view.data = region.at_device() + (place - region.begin);
      return;
    }
  }
  void download() const {
    for (const Region& region : regions_) device_.download(region.elements(), region.begin);
  }

 private:
  Backend& device_;
  std::vector<Region> regions_;
};

class StagedBackend final : public Backend {
 public:
  explicit StagedBackend(std::unique_ptr<Backend> device) : device_(std::move(device)) {}

  Buffer allocate(std::size_t bytes) override { return allocate_host(bytes); }
  void upload(const void* host, Tensor to) override {
    if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
  }
  void download(ConstTensor from, void* host) override {
    if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
  }
  void synchronize() override {}
  std::int64_t relu_mask_words(const LinearForward& op) override { return device_->relu_mask_words(op); }
  std::string description() const override { return "staged " + device_->description(); }

 private:
  template <class Op>
  void stage(Op op, std::initializer_list<ConstTensor Op::*> read, std::initializer_list<Tensor Op::*> written) {
    Staging staging(*device_);
    for (const auto field : read) staging.add(op.*field);
    for (const auto field : written) staging.add(op.*field);
    staging.upload();
    for (const auto field : read) staging.move_to_device(op.*field);
    for (const auto field : written) staging.move_to_device(op.*field);
    device_->run(op);
    device_->synchronize();
    staging.download();
  }

  void do_run(const LinearForward& op) override {
    stage(op, {&LinearForward::x, &LinearForward::weight, &LinearForward::bias, &LinearForward::bias_copy},
          {&LinearForward::y, &LinearForward::relu_mask});
  }
  void do_run(const LinearBackwardData& op) override {
    stage(op,
          {&LinearBackwardData::dy, &LinearBackwardData::weight, &LinearBackwardData::gate,
           &LinearBackwardData::relu_mask},
          {&LinearBackwardData::dx});
  }
  void do_run(const LinearBackwardWeight& op) override {
    stage(op, {&LinearBackwardWeight::dy, &LinearBackwardWeight::x},
          {&LinearBackwardWeight::dweight, &LinearBackwardWeight::dbias});
  }
  void do_run(const LayerNormForward& op) override {
    stage(op, {&LayerNormForward::x, &LayerNormForward::gain, &LayerNormForward::bias},
          {&LayerNormForward::y, &LayerNormForward::mean, &LayerNormForward::rstd});
  }
  void do_run(const ResidualNormForward& op) override {
    stage(op,
          {&ResidualNormForward::residual, &ResidualNormForward::branch, &ResidualNormForward::gain,
           &ResidualNormForward::bias},
          {&ResidualNormForward::sum, &ResidualNormForward::y, &ResidualNormForward::mean, &ResidualNormForward::rstd});
  }
  void do_run(const LayerNormBackward& op) override {
    stage(op,
          {&LayerNormBackward::dy, &LayerNormBackward::x, &LayerNormBackward::gain, &LayerNormBackward::mean,
           &LayerNormBackward::rstd},
          {&LayerNormBackward::dx, &LayerNormBackward::dgain, &LayerNormBackward::dbias, &LayerNormBackward::dbranch});
  }
  void do_run(const Dropout& op) override { stage(op, {&Dropout::x}, {&Dropout::y}); }
  void do_run(const ResidualDropout& op) override {
    stage(op, {&ResidualDropout::residual, &ResidualDropout::branch}, {&ResidualDropout::y});
  }
  void do_run(const EmbeddingForward& op) override {
    stage(op, {&EmbeddingForward::ids, &EmbeddingForward::positions, &EmbeddingForward::table}, {&EmbeddingForward::y});
  }
  void do_run(const EmbeddingBackward& op) override {
    stage(op, {&EmbeddingBackward::ids, &EmbeddingBackward::dy}, {&EmbeddingBackward::dtable});
  }
  void do_run(const AttentionForward& op) override {
    stage(op, {&AttentionForward::q, &AttentionForward::k, &AttentionForward::v},
          {&AttentionForward::out, &AttentionForward::log_sum_exp});
  }
  void do_run(const AttentionBackward& op) override {
    stage(op,
          {&AttentionBackward::dout, &AttentionBackward::out, &AttentionBackward::q, &AttentionBackward::k,
           &AttentionBackward::v, &AttentionBackward::log_sum_exp},
          {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv});
  }
  void do_run(const DecodeAttention& op) override {
    stage(op, {&DecodeAttention::q, &DecodeAttention::keys, &DecodeAttention::values}, {&DecodeAttention::out});
  }
  void do_run(const CrossEntropy& op) override {
    stage(op, {&CrossEntropy::logits, &CrossEntropy::targets},
          {&CrossEntropy::dlogits, &CrossEntropy::loss, &CrossEntropy::nll, &CrossEntropy::correct,
           &CrossEntropy::predicted});
  }
  void do_run(const LogSoftmaxTopK& op) override {
    stage(op, {&LogSoftmaxTopK::logits}, {&LogSoftmaxTopK::scores, &LogSoftmaxTopK::indices});
  }
  void do_run(const AdamUpdate& op) override {
    stage(op, {&AdamUpdate::gradient, &AdamUpdate::treatment, &AdamUpdate::squares},
          {&AdamUpdate::master, &AdamUpdate::m, &AdamUpdate::v, &AdamUpdate::compute});
  }
  void do_run(const SquaredNorm& op) override { stage(op, {&SquaredNorm::x}, {&SquaredNorm::sums}); }
  void do_run(const SumWithNorm& op) override {
    SumWithNorm moved = op;
    Staging staging(*device_);
    for (const ConstTensor& part : op.parts) staging.add(part);
    for (const Tensor& result : {op.sum, op.norms}) staging.add(result);
    staging.upload();
    for (ConstTensor& part : moved.parts) staging.move_to_device(part);
    for (Tensor* result : {&moved.sum, &moved.norms}) staging.move_to_device(*result);
    device_->run(moved);
    device_->synchronize();
    staging.download();
  }
  void do_run(const Cast& op) override { stage(op, {&Cast::x}, {&Cast::y}); }
  void do_run(const Fill& op) override { stage(op, {}, {&Fill::y}); }
  void do_run(const Add& op) override { stage(op, {&Add::x}, {&Add::y}); }

  std::unique_ptr<Backend> device_;
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device) {
  return std::make_unique<StagedBackend>(std::move(device));
}

}  // namespace babelring
