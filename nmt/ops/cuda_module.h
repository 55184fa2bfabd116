#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

/// The GPU backend is a separate shared library, libbabelring_cuda.so, loaded at run time. Programs therefore start
/// without CUDA's libraries, report what is missing, and do not pay for loading them if unused.
namespace babelring {

class Backend;

/// The function table returned by the library's only export, `babelring_cuda_module`. Functions write texts of up to
/// `size` bytes, NUL-terminated; `error` is written on failure only.
struct CudaModule {
  const char *version, *compiler;                                       // of the module's build
  int (*count_devices)(char* error, std::size_t size);                  // 0 on failure
  bool (*identify)(int device, char* text, std::size_t size);           // text: the GPU's UUID, or the error
  Backend* (*make_backend)(int device, char* error, std::size_t size);  // owned by the caller; null on failure
};

/// Module and program share C++ classes, so they must have the same version and compiler.
inline constexpr char cuda_module_compiler[] = __VERSION__;
inline constexpr char cuda_module_file[] = "libbabelring_cuda.so";

/// A loaded module and its number of devices, at least 1.
struct CudaDevices {
  const CudaModule* module = nullptr;
  int count = 0;
};

/// Loads a module and counts its devices. It stays loaded until the process ends. The Error says why the module cannot
/// be loaded or finds no device.
Result<CudaDevices> open_cuda_module(const std::filesystem::path& file);
/// Opens the first of `files` that exists. The Error may also say that there is no file or no GPU driver.
Result<CudaDevices> find_cuda_module(const std::vector<std::filesystem::path>& files);
/// The devices of the module in the program's folder (build) or in ../lib/babelring (installation). Loaded on the first
/// call. Thread-safe.
const Result<CudaDevices>& find_cuda();
/// Creates a backend on a module's device. Throws Failure if the device cannot be used.
std::unique_ptr<Backend> make_backend_of(const CudaModule& module, int device);
/// Creates a backend on device 0 to find_cuda()->count - 1. Throws Failure if the device cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace babelring
