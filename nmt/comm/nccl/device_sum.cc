#include "nmt/comm/nccl/device_sum.h"

namespace babelring {

Tensor NcclDeviceSum::narrow(const Tensor& tensor) {
  const std::size_t bytes = tensor.bytes() / 2;
  if (narrow_.bytes() < bytes)
    narrow_ = stream_->allocate(bytes);  // the old buffer is freed once the device has used it
  return narrow_.view({tensor.shape.elements()}, DType::bf16);
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::begin(NcclGroup& group, const NcclSum& sum) {
  stream_->after_backend();
  auto mark = stream_->mark();
  const bool narrowed = wire_ == GradientWire::bf16;
  const Tensor sent = narrowed ? narrow(sum.tensor) : sum.tensor;
  const NcclType type = narrowed ? nccl_bfloat16 : nccl_float32;
  if (narrowed) stream_->convert(sum.tensor, sent);
  if (sum.stripe > 0) {
    group.reduce_scatter(sent.data, static_cast<std::size_t>(sum.stripe), type, stream_->handle());
  } else {
    group.all_reduce(sent.data, static_cast<std::size_t>(sent.shape.elements()), type, stream_->handle());
  }
  return mark;
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::end(const NcclSum& sum) {
  const std::int64_t count = sum.own.end - sum.own.begin;
  if (wire_ == GradientWire::bf16 && count > 0) {
    const Tensor flat(sum.tensor.data, {sum.tensor.shape.elements()}, DType::f32);
    stream_->convert(narrow(sum.tensor).row_slice(sum.own.begin, count), flat.row_slice(sum.own.begin, count));
  }
  return stream_->mark();
}

}  // namespace babelring
