#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "nmt/ops/cuda/cudnn_library.h"

namespace babelring::cuda {

/// A cuDNN backend descriptor: create it, set its attributes, finalize() it, then use it. Throws Failure with cuDNN's
/// message if a call fails. The library must outlive it.
class CudnnDescriptor {
 public:
  /// `what` is its name in messages; it must outlive the object.
  CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type, const char* what);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : library_(other.library_), what_(other.what_), handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  /// Sets an attribute with one value; the attribute's type follows from the value's.
  template <class Value>
  void set(cudnnBackendAttributeName_t name, const Value& value) {
    set_raw(name, attribute_type<Value>(), 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  void set_list(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set_raw(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
               const void* values);
  void finalize();

  /// Reads up to `most` values of an attribute. Returns the number read.
  std::int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                       void* values) const;
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  template <class Value>
  static constexpr cudnnBackendAttributeType_t attribute_type() {
    if constexpr (std::is_same_v<Value, bool>) return CUDNN_TYPE_BOOLEAN;
    if constexpr (std::is_same_v<Value, std::int64_t>) return CUDNN_TYPE_INT64;
    if constexpr (std::is_same_v<Value, double>) return CUDNN_TYPE_DOUBLE;
    if constexpr (std::is_same_v<Value, void*>) return CUDNN_TYPE_VOID_PTR;
    if constexpr (std::is_same_v<Value, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
    if constexpr (std::is_same_v<Value, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
    if constexpr (std::is_same_v<Value, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
    if constexpr (std::is_same_v<Value, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
    if constexpr (std::is_same_v<Value, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  }

  const CudnnLibrary* library_;
  const char* what_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace babelring::cuda
