#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring::cuda {

/// The functions of cuDNN that are called, found at run time: without the library a host goes on without it.
struct CudnnLibrary {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  /// Throws Failure with the call and cuDNN's words, in one line, unless the status is a success.
  void require(cudnnStatus_t status, std::string_view call) const;
};

/// Opens a library, which stays open until the process ends. The Error says why it cannot be used.
Result<std::unique_ptr<const CudnnLibrary>> open_cudnn(const std::string& file);

/// "9.19.0" of 91900.
std::string cudnn_version_text(std::size_t version);

}  // namespace babelring::cuda
