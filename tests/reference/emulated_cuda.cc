#include "tests/reference/emulated_cuda.h"

#include <array>
#include <filesystem>

#include "base/failure.h"
#include "nmt/ops/cuda_module.h"

namespace babelring {

std::unique_ptr<Backend> make_emulated_cuda_backend(int device) {
  static const Result<CudaDevices> devices =
      open_cuda_module(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libbabelring_cuda_emulated.so");
  std::array<char, 512> error{};
  std::unique_ptr<Backend> backend(devices->module->make_backend(device, error.data(), error.size()));
  if (backend == nullptr) fail("{}", error.data());
  return backend;
}

}  // namespace babelring
