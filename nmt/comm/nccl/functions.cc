#include "nmt/comm/nccl/functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace babelring {
namespace {

constexpr int oldest_nccl = 21400;  // 2.14 introduced nonblocking communicators

}  // namespace

std::string NcclLibrary::version_text() const {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<NcclLibrary> open_nccl_library(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = ::dlerror();
    return Error{error != nullptr ? error : fmt::format("{} cannot be opened", file)};
  }
  NcclLibrary found;
  std::string missing;
  const auto take = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  NcclFunctions& functions = found.functions;
  take("ncclGetVersion", functions.get_version);
  take("ncclGetUniqueId", functions.get_unique_id);
  take("ncclCommInitRankConfig", functions.init_rank);
  take("ncclCommGetAsyncError", functions.async_error);
  take("ncclAllReduce", functions.all_reduce);
  take("ncclReduceScatter", functions.reduce_scatter);
  take("ncclAllGather", functions.all_gather);
  take("ncclBroadcast", functions.broadcast);
  take("ncclGroupStart", functions.group_start);
  take("ncclGroupEnd", functions.group_end);
  take("ncclCommFinalize", functions.finalize);
  take("ncclCommDestroy", functions.destroy);
  take("ncclCommAbort", functions.abort);
  take("ncclGetErrorString", functions.error_string);
  take("ncclGetLastError", functions.last_error);
  if (!missing.empty()) return Error{fmt::format("{} has no {}", file, missing)};
  const int result = functions.get_version(&found.version);
  if (result != nccl_success || found.version < oldest_nccl) {
    return Error{fmt::format("{} has version {}, expected {} or newer", file, found.version, oldest_nccl)};
  }
  return found;
}

const Result<NcclLibrary>& find_nccl() {
  static const Result<NcclLibrary> library = open_nccl_library("libnccl.so.2");
  return library;
}

}  // namespace babelring
