#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "base/result.h"

/// NVIDIA's NCCL, loaded at run time: neither the build nor program start needs it. The parts of nccl.h in use are
/// declared here; they have not changed since version 2.14. Where nccl.h is installed, a test compares them.
namespace babelring {

struct NcclCommObject;  // opaque; NCCL's ncclComm
using NcclComm = NcclCommObject*;

enum NcclResult : int { nccl_success = 0, nccl_remote_error = 6, nccl_in_progress = 7 };
enum NcclType : int { nccl_int8 = 0, nccl_float32 = 7, nccl_bfloat16 = 9 };
enum NcclOperator : int { nccl_sum = 0 };

struct NcclUniqueId {
  char bytes[128];
};

/// ncclConfig_t with the members of version 2.14 and one (cga_cluster_size) in its padding. Newer members get NCCL's
/// defaults.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // NCCL's default
};

/// The functions of libnccl.so.2 in use, or a test's fakes. They return ncclResult_t; NcclResult lists the values in
/// use.
struct NcclFunctions {
  int (*get_version)(int* version) = nullptr;  // 22809 means 2.28.9
  int (*get_unique_id)(NcclUniqueId* id) = nullptr;
  int (*init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) = nullptr;
  int (*async_error)(NcclComm comm, int* result) = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm,
                    void* stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, std::size_t count_of_rank, int type, int op, NcclComm comm,
                        void* stream) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t count_of_rank, int type, NcclComm comm,
                    void* stream) = nullptr;
  int (*broadcast)(const void* from, void* to, std::size_t count, int type, int root, NcclComm comm,
                   void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*finalize)(NcclComm comm) = nullptr;
  int (*destroy)(NcclComm comm) = nullptr;
  int (*abort)(NcclComm comm) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;
};

/// A loaded NCCL library.
struct NcclLibrary {
  NcclFunctions functions;
  int version = 0;

  /// "2.28.9".
  std::string version_text() const;
};

/// Loads a library by name or path. It stays loaded until the process ends. The Error says why it is unavailable.
Result<NcclLibrary> open_nccl_library(const std::string& file);
/// libnccl.so.2 from the system's library path. Loaded on the first call.
const Result<NcclLibrary>& find_nccl();

}  // namespace babelring
