#include "nmt/ops/cuda/device_lists.h"

#include <algorithm>
#include <bit>

namespace babelring::cuda {

const std::int32_t* DeviceLists::on_device(std::span<const std::int32_t> list) {
  if (values_.active()) return values_.list(list);
  ++uses_;
  for (Kept& kept : kept_) {
    if (kept.last_use < 0 || !std::equal(list.begin(), list.end(), kept.list.begin(), kept.list.end())) continue;
    kept.last_use = uses_;
    return static_cast<const std::int32_t*>(kept.copy.data());
  }
  Kept& oldest = *std::min_element(kept_.begin(), kept_.end(),
                                   [](const Kept& a, const Kept& b) { return a.last_use < b.last_use; });
  oldest.last_use = -1;  // should something throw
  if (oldest.copy.bytes() < list.size_bytes()) oldest.copy = allocate_device(std::bit_ceil(list.size_bytes()));
  oldest.list.assign(list.begin(), list.end());
  if (!staging_.upload(oldest.copy.data(), oldest.list.data(), list.size_bytes())) {
    // From memory that is not pinned: the driver has taken its copy when the call returns.
    require(cudaMemcpyAsync(oldest.copy.data(), oldest.list.data(), list.size_bytes(), cudaMemcpyHostToDevice, stream_),
            "copying a list to the device");
  }
  oldest.last_use = uses_;
  return static_cast<const std::int32_t*>(oldest.copy.data());
}

}  // namespace babelring::cuda
