#include "tests/reference/emulated_cuda.h"

#include <array>
#include <filesystem>

#include "base/failure.h"
#include "nmt/ops/cuda_module.h"

namespace babelring {

std::unique_ptr<Backend> make_emulated_cuda_backend(int device) {
  static const CudaSupport support =
      open_cuda_module(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libbabelring_cuda_emulated.so");
  if (support.devices == 0) fail("{}", support.why);
  std::array<char, 512> why{};
  std::unique_ptr<Backend> backend(support.module->make_backend(device, why.data(), why.size()));
  if (backend == nullptr) fail("{}", why.data());
  return backend;
}

}  // namespace babelring
