#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/version.h"
#include "nmt/ops/cuda/cuda_backend.h"
#include "nmt/ops/cuda_module.h"

namespace babelring::cuda {

namespace {

constexpr int min_capability = 8;  // bf16 in the matrix units

void put_text(const std::string& from, char* text, std::size_t size) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::copy_n(from.begin(), length, text);
  text[length] = '\0';
}

int count_devices(char* why, std::size_t size) {
  int driver = 0, devices = 0;  // a failed call leaves them alone
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    put_text("there is no NVIDIA driver", why, size);
    return 0;
  }
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return devices;
  put_text(fmt::format("there is no CUDA device: {}", cudaGetErrorString(status)), why, size);
  static_cast<void>(cudaGetLastError());
  return 0;
}

bool identify(int device, char* text, std::size_t size) {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status != cudaSuccess) {
    put_text(fmt::format("device {}: {}", device, cudaGetErrorString(status)), text, size);
    return false;
  }
  if (properties.major < min_capability) {
    put_text(fmt::format("device {}, {}, has compute capability {}.{}, {}.0 or newer is needed", device,
                         properties.name, properties.major, properties.minor, min_capability),
             text, size);
    return false;
  }
  std::string identity;
  for (const char byte : properties.uuid.bytes) identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  put_text(identity, text, size);
  return true;
}

Backend* make_backend(int device, char* why, std::size_t size) {
  try {
    return new CudaBackend(device);
  } catch (const std::exception& error) {
    put_text(error.what(), why, size);
    return nullptr;
  }
}

}  // namespace

}  // namespace babelring::cuda

extern "C" __attribute__((visibility("default"))) const babelring::CudaModule* babelring_cuda_module() {
  static const babelring::CudaModule module{.version = babelring::version,
                                            .compiler = babelring::cuda_module_compiler,
                                            .count_devices = babelring::cuda::count_devices,
                                            .identify = babelring::cuda::identify,
                                            .make_backend = babelring::cuda::make_backend};
  return &module;
}
