#include "base/failure.h"
#include "nmt/ops/cuda/cudnn_plans.h"

/// CudnnPlans of builds without cuDNN's headers.
namespace babelring::cuda {

struct CudnnPlans::Library {
  Result<std::int64_t> none = Error{"this build was made without cuDNN's headers"};
};

CudnnPlans::CudnnPlans(CudnnDevice, const std::string&) : library_(std::make_unique<Library>()) {}
CudnnPlans::~CudnnPlans() = default;

std::string CudnnPlans::description() const {
  return "no cuDNN: " + library_->none.error();
}

const Result<std::int64_t>& CudnnPlans::workspace_bytes(const CudnnShape&) {
  return library_->none;
}

void CudnnPlans::run(const CudnnShape&, const CudnnOperands&, void*) {
  fail("cudnn: {}", library_->none.error());
}

}  // namespace babelring::cuda
