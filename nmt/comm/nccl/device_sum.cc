#include "nmt/comm/nccl/device_sum.h"

namespace babelring {

Tensor NcclDeviceSum::narrow(const Tensor& tensor) {
  const std::size_t bytes = tensor.bytes() / 2;
  if (narrow_.bytes() < bytes)
    narrow_ = stream_->allocate(bytes);  // the old buffer is freed once the device has used it
  return narrow_.view({tensor.shape.elements()}, DType::bf16);
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::begin(NcclGroup& group, Tensor tensor) {
  const auto count = static_cast<std::size_t>(tensor.shape.elements());
  stream_->after_backend();
  auto mark = stream_->mark();
  if (wire_ == GradientWire::f32) {
    group.all_reduce(tensor.data, count, nccl_float32, stream_->handle());
    return mark;
  }
  const Tensor wire_tensor = narrow(tensor);
  stream_->convert(tensor, wire_tensor);
  group.all_reduce(wire_tensor.data, count, nccl_bfloat16, stream_->handle());
  return mark;
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::end(Tensor tensor) {
  if (wire_ == GradientWire::bf16) stream_->convert(narrow(tensor), tensor);
  return stream_->mark();
}

}  // namespace babelring
