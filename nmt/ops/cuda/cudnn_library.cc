#include "nmt/ops/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/failure.h"

namespace babelring::cuda {

namespace {

/// The first with all that the graphs of attention need, and without the faults of 9.10.0 and 9.10.1.
constexpr std::size_t min_cudnn_version = 91002;

/// Sets one member to the library's function of that name; false if there is none.
template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_functions(void* library, CudnnLibrary& functions) {
  return find_function(library, "cudnnGetVersion", functions.get_version) &&
         find_function(library, "cudnnGetErrorString", functions.error_string) &&
         find_function(library, "cudnnGetLastErrorString", functions.last_error) &&
         find_function(library, "cudnnCreate", functions.create) &&
         find_function(library, "cudnnDestroy", functions.destroy) &&
         find_function(library, "cudnnSetStream", functions.set_stream) &&
         find_function(library, "cudnnBackendCreateDescriptor", functions.create_descriptor) &&
         find_function(library, "cudnnBackendDestroyDescriptor", functions.destroy_descriptor) &&
         find_function(library, "cudnnBackendFinalize", functions.finalize) &&
         find_function(library, "cudnnBackendSetAttribute", functions.set_attribute) &&
         find_function(library, "cudnnBackendGetAttribute", functions.get_attribute) &&
         find_function(library, "cudnnBackendExecute", functions.execute);
}

}  // namespace

void CudnnLibrary::require(cudnnStatus_t status, std::string_view call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> words{};
  last_error(words.data(), words.size());
  std::string text = words.data();
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(text.find_last_not_of(' ') + 1);
  fail("cudnn: {}: {}{}{}", call, error_string(status), text.empty() ? "" : ": ", text);
}

Result<std::unique_ptr<const CudnnLibrary>> open_cudnn(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    return Error{error != nullptr ? error : fmt::format("{} cannot be opened", file)};
  }
  auto functions = std::make_unique<CudnnLibrary>();
  if (!find_functions(library, *functions)) return Error{fmt::format("{} lacks functions of cuDNN 9", file)};
  if (functions->get_version() < min_cudnn_version) {
    return Error{fmt::format("{} is of version {}, {} or newer is needed", file,
                             cudnn_version_text(functions->get_version()), cudnn_version_text(min_cudnn_version))};
  }
  return std::unique_ptr<const CudnnLibrary>(std::move(functions));
}

std::string cudnn_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace babelring::cuda
