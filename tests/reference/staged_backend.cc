#include "tests/reference/staged_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "nmt/ops/every_op.h"

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
  std::int64_t epilogue_aux_words(const LinearForward& op) override { return device_->epilogue_aux_words(op); }
  std::string description() const override { return "staged " + device_->description(); }

  template <class Op>
  void launch(Op op) {
    Staging staging(*device_);
    for_each_device_field(op, [&](const auto& view) { staging.add(view); });
    staging.upload();
    for_each_device_field(op, [&](auto& view) { staging.move_to_device(view); });
    device_->run(op);
    device_->synchronize();
    staging.download();
  }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }
  template <class Op, class Use>
  static void for_each_device_field(Op& op, Use use) {
    for_each_field(op, [&](std::string_view, auto& view, Access access) {
      if (access != Access::reads_host) use(view);
    });
  }

  std::unique_ptr<Backend> device_;
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device) {
  return std::make_unique<StagedBackend>(std::move(device));
}

}  // namespace babelring
