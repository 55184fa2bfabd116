#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// The GPU backend is a shared library of its own, libbabelring_cuda.so, opened when it is wanted: programs start, and
/// say what is missing, on hosts without CUDA's libraries, and do not pay for loading them elsewhere.
namespace babelring {

class Backend;

/// What the library's only function, `babelring_cuda_module`, returns. Texts are written to `why` or `text`, ended by
/// 0.
struct CudaModule {
  const char *version, *compiler;                                     // of its build
  int (*count_devices)(char* why, std::size_t size);                  // 0: why says why
  bool (*identify)(int device, char* text, std::size_t size);         // text: the GPU's UUID; false: why it is refused
  Backend* (*make_backend)(int device, char* why, std::size_t size);  // owned by the caller; null: why says why
};

/// Module and program share C++ classes: both must be of one version, made by one compiler.
inline constexpr char cuda_module_compiler[] = __VERSION__;
inline constexpr char cuda_module_file[] = "libbabelring_cuda.so";

/// The module and what it found, or why it cannot be used.
struct CudaSupport {
  const CudaModule* module = nullptr;
  int devices = 0;
  std::string why;  // set if there are none
};

/// Opens a module and asks it for devices. It stays open until the process ends.
CudaSupport open_cuda_module(const std::filesystem::path& file);
/// The first of the files that exists, opened if there is a driver for it to work with.
CudaSupport find_cuda_module(const std::vector<std::filesystem::path>& files);
/// The module beside this program, or in ../lib/babelring: as the build and the installation lay them. Found once.
const CudaSupport& find_cuda();
/// Of the module that find_cuda() found. Throws Failure if the device cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace babelring
