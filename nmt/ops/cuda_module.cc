#include "nmt/ops/cuda_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/failure.h"
#include "base/result.h"
#include "base/version.h"
#include "nmt/ops/backend.h"

namespace babelring {

namespace {

constexpr std::size_t text_size = 512;

/// Checked before the module is loaded, which brings 200 MB of NVIDIA's libraries into memory.
bool has_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

/// The module's function table. The Error says why the file cannot be loaded or belongs to another build.
Result<const CudaModule*> load_module(const std::filesystem::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    return Error{error != nullptr ? error : fmt::format("{} cannot be opened", file.string())};
  }
  using Entry = const CudaModule* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "babelring_cuda_module"));
  if (entry == nullptr) return Error{fmt::format("{} is not a module of Babelring", file.string())};
  const CudaModule* module = entry();
  if (std::string_view(module->version) == version && std::string_view(module->compiler) == cuda_module_compiler) {
    return module;
  }
  return Error{fmt::format("{} is of version {} made by {}, this program of version {} by {}", file.string(),
                           module->version, module->compiler, version, cuda_module_compiler)};
}

}  // namespace

Result<CudaDevices> open_cuda_module(const std::filesystem::path& file) {
  const Result<const CudaModule*> module = load_module(file);
  if (!module) return Error{module.error()};
  std::array<char, text_size> error{};
  const int count = (*module)->count_devices(error.data(), error.size());
  if (count == 0) return Error{error.data()};
  return CudaDevices{.module = *module, .count = count};
}

Result<CudaDevices> find_cuda_module(const std::vector<std::filesystem::path>& files) {
  const auto exists = [](const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::exists(file, ignored);
  };
  const auto file = std::find_if(files.begin(), files.end(), exists);
  if (file == files.end()) return Error{fmt::format("this build has no {}", cuda_module_file)};
  if (!has_driver()) return Error{"there is no NVIDIA driver"};
  return open_cuda_module(*file);
}

const Result<CudaDevices>& find_cuda() {
  static const Result<CudaDevices> devices = [] {
    std::error_code ignored;
    // This code's own file is the program, or a library that another program loaded.
    Dl_info own{};
    ::dladdr(&cuda_module_file, &own);
    const std::filesystem::path library(own.dli_fname == nullptr ? "" : own.dli_fname);
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    return find_cuda_module({folder / cuda_module_file, folder / "../lib/babelring" / cuda_module_file,
                             library.parent_path() / cuda_module_file,
                             library.parent_path() / "../babelring" / cuda_module_file});
  }();
  return devices;
}

std::unique_ptr<Backend> make_backend_of(const CudaModule& module, int device) {
  std::array<char, text_size> error{};
  std::unique_ptr<Backend> backend(module.make_backend(device, error.data(), error.size()));
  if (backend == nullptr) fail("{}", error.data());
  return backend;
}

std::unique_ptr<Backend> make_cuda_backend(int device) {
  return make_backend_of(*find_cuda()->module, device);
}

}  // namespace babelring
