#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace babelring::cuda {

/// The cuDNN functions in use, loaded at run time, so that programs also run without the library.
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

  /// Throws Failure with `call` and cuDNN's message in one line unless the call succeeded.
  void require(cudnnStatus_t status, std::string_view call) const;
};

/// Loads a library, which stays loaded until the process ends. The Error says why it cannot be used.
Result<std::unique_ptr<const CudnnLibrary>> open_cudnn(const std::string& file);

/// A version number as text: 91900 gives "9.19.0".
std::string cudnn_version_text(std::size_t version);

}  // namespace babelring::cuda
