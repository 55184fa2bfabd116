#include "nmt/ops/cuda/cudnn_descriptor.h"

#include <fmt/format.h>

namespace babelring::cuda {

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type, const char* what)
    : library_(&library), what_(what) {
  library_->require(library_->create_descriptor(type, &handle_), what_);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) library_->destroy_descriptor(handle_);
}

void CudnnDescriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                              const void* values) {
  const cudnnStatus_t status = library_->set_attribute(handle_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    library_->require(status, fmt::format("{}, attribute {}", what_, static_cast<int>(name)));
}

void CudnnDescriptor::finalize() {
  library_->require(library_->finalize(handle_), what_);
}

std::int64_t CudnnDescriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                      std::int64_t most, void* values) const {
  std::int64_t count = 0;
  const cudnnStatus_t status = library_->get_attribute(handle_, name, type, most, &count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    library_->require(status, fmt::format("{}, attribute {}", what_, static_cast<int>(name)));
  return count;
}

}  // namespace babelring::cuda
