#include "nmt/comm/nccl/functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace babelring {
namespace {

constexpr int oldest_nccl = 21400;  // 2.14 introduced nonblocking communicators

/// Sets `function` to the symbol `name` of `library`. If it is missing, sets `why`, unless already set.
template <class Function>
void take_symbol(void* library, const std::string& file, const char* name, Function& function, std::string& why) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr && why.empty()) why = fmt::format("{} has no {}", file, name);
}

}  // namespace

std::string NcclLibrary::version_text() const {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclLibrary open_nccl_library(const std::string& file) {
  NcclLibrary found;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    found.why = error != nullptr ? error : fmt::format("{} cannot be opened", file);
    return found;
  }
  NcclFunctions& functions = found.functions;
  const auto take = [&](const char* name, auto& function) { take_symbol(library, file, name, function, found.why); };
  take("ncclGetVersion", functions.get_version);
  take("ncclGetUniqueId", functions.get_unique_id);
  take("ncclCommInitRankConfig", functions.init_rank);
  take("ncclCommGetAsyncError", functions.async_error);
  take("ncclAllReduce", functions.all_reduce);
  take("ncclCommFinalize", functions.finalize);
  take("ncclCommDestroy", functions.destroy);
  take("ncclCommAbort", functions.abort);
  take("ncclGetErrorString", functions.error_string);
  take("ncclGetLastError", functions.last_error);
  if (!found.why.empty()) return found;
  int version = 0;
  const int result = functions.get_version(&version);
  if (result != nccl_success || version < oldest_nccl) {
    found.why = fmt::format("{} has version {}, expected {} or newer", file, version, oldest_nccl);
    return found;
  }
  found.version = version;
  return found;
}

const NcclLibrary& find_nccl() {
  static const NcclLibrary library = open_nccl_library("libnccl.so.2");
  return library;
}

}  // namespace babelring
