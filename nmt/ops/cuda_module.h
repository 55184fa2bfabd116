#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// The GPU backend is a separate shared library, libbabelring_cuda.so, loaded at run time. Programs therefore start
/// without CUDA's libraries, report what is missing, and do not pay for loading them if unused.
namespace babelring {

class Backend;

/// The function table returned by the library's only export, `babelring_cuda_module`. Texts are written to `why` or
/// `text`, NUL-terminated. `why` holds the reason for a failure.
struct CudaModule {
  const char *version, *compiler;                                     // of the module's build
  int (*count_devices)(char* why, std::size_t size);                  // 0 on failure
  bool (*identify)(int device, char* text, std::size_t size);         // text: the GPU's UUID, or why it is unusable
  Backend* (*make_backend)(int device, char* why, std::size_t size);  // owned by the caller; null on failure
};

/// Module and program share C++ classes, so they must have the same version and compiler.
inline constexpr char cuda_module_compiler[] = __VERSION__;
inline constexpr char cuda_module_file[] = "libbabelring_cuda.so";

/// A loaded module and its number of devices, or the reason why there are none.
struct CudaSupport {
  const CudaModule* module = nullptr;
  int devices = 0;
  std::string why;  // set if there are no devices
};

/// Loads a module and counts its devices. It stays loaded until the process ends.
CudaSupport open_cuda_module(const std::filesystem::path& file);
/// Loads the first of `files` that exists, if a GPU driver is present.
CudaSupport find_cuda_module(const std::vector<std::filesystem::path>& files);
/// The module in the program's folder (build) or in ../lib/babelring (installation). Loaded on the first call.
const CudaSupport& find_cuda();
/// Creates a backend with the module from find_cuda(). Throws Failure if the device cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace babelring
