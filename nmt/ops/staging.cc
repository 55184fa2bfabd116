#include "nmt/ops/staging.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/failure.h"
#include "nmt/ops/every_op.h"

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

std::size_t Staging::Region::offset() const {
  return reinterpret_cast<std::uintptr_t>(begin) % 64;
}

Tensor Staging::Region::elements() const {
  return Tensor(at_device(), Shape{(end - begin) / 2}, DType::bf16);  // of any type: bytes are copied
}

void Staging::add(const ConstTensor& view) {
  char* begin = const_cast<char*>(view.as<char>());
  const std::int64_t elements = (view.rows() - 1) * view.row_stride + view.columns();
  regions_.push_back({begin, begin + static_cast<std::size_t>(elements) * size_of(view.dtype), {}, {}});
}

void Staging::upload() {
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

const Staging::Region& Staging::region_of(const void* host) const {
  const auto* place = static_cast<const char*>(host);
  const auto found = std::find_if(regions_.begin(), regions_.end(), [place](const Region& region) {
    return place >= region.begin && place < region.end;
  });
  if (found == regions_.end()) fail("staging: a tensor was asked for that was not staged");
  return *found;
}

char* Staging::place_of(const void* host) const {
  const Region& region = region_of(host);
  return region.at_device() + (static_cast<const char*>(host) - region.begin);
}

void Staging::download() const {
  for (const Region& region : regions_) device_.download(region.elements(), region.begin);
}

void Staging::fetch() {
  for (Region& region : regions_) {
    region.fetched.resize(static_cast<std::size_t>(region.end - region.begin));
    device_.download(region.elements(), region.fetched.data());
  }
}

ConstTensor Staging::fetched(const ConstTensor& host) const {
  if (host.shape.elements() == 0) return host;
  const Region& region = region_of(host.data);
  ConstTensor view = host;
  view.data = region.fetched.data() + (host.as<char>() - region.begin);
  return view;
}

}  // namespace babelring
