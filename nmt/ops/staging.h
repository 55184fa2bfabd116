#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Runs ops on tensors in host memory by a backend with other memory: copies every operand there, runs the op, waits
/// and copies all back. Slow; for tests and comparisons that make and read tensors on the host.
std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device);

/// Copies the tensors of one op from host memory to a device and back. Tensors that overlap on the host overlap on the
/// device in the same way.
class Staging {
 public:
  /// `device` must outlive the object.
  explicit Staging(Backend& device) : device_(device) {}

  /// Copies the op's tensors to the device and makes its views point there. Lists that ops read in host memory stay.
  template <class Op>
  void stage(Op& op) {
    for_each_device_field(op, [this](const auto& view) { add(view); });
    upload();
    for_each_device_field(op, [this](auto& view) { view.data = place_of(view.data); });
  }
  /// Copies all tensors back to where they were on the host.
  void download() const;
  /// Copies all tensors back to memory of this object, for fetched().
  void fetch();
  /// A view, like `staged`, of the memory that fetch() filled for a staged tensor.
  ConstTensor fetched(const ConstTensor& host) const;

 private:
  /// Bytes of host memory without gaps between them, and their copy on the device.
  struct Region {
    char* begin = nullptr;
    char* end = nullptr;
    Buffer copy;
    std::vector<char> fetched;

    /// Place of the first byte in the copy, which is aligned as it is on the host.
    std::size_t offset() const;
    char* at_device() const { return static_cast<char*>(copy.data()) + offset(); }
    Tensor elements() const;
  };

  template <class Op, class Use>
  static void for_each_device_field(Op& op, Use use) {
    for_each_field(op, [&](std::string_view, auto& view, Access access) {
      if (access != Access::reads_host && view.shape.elements() > 0) use(view);
    });
  }
  void add(const ConstTensor& view);
  void upload();
  const Region& region_of(const void* host) const;
  char* place_of(const void* host) const;

  Backend& device_;
  std::vector<Region> regions_;
};

}  // namespace babelring
