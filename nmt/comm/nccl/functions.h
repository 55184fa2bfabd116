#pragma once

#include <climits>
#include <cstddef>
#include <string>

/// NVIDIA's NCCL, opened when it is wanted: neither the build nor a program's start needs it. What is used of nccl.h is
/// declared here, as it has been since version 2.14; a test holds it against the header where there is one.
namespace babelring {

struct NcclCommObject;  // NCCL's own
using NcclComm = NcclCommObject*;

enum NcclResult : int { nccl_success = 0, nccl_remote_error = 6, nccl_in_progress = 7 };
enum NcclType : int { nccl_float32 = 7, nccl_bfloat16 = 9 };
enum NcclOperator : int { nccl_sum = 0 };

struct NcclUniqueId {
  char bytes[128];
};

/// The members that version 2.14 knew, and one in the padding behind them; later ones get NCCL's defaults.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // NCCL's own choice
};

/// The functions of libnccl.so.2 that are used, or a test's stand-ins. The results are NcclResult's and others.
struct NcclFunctions {
  int (*get_version)(int* version) = nullptr;  // 22809 is 2.28.9
  int (*get_unique_id)(NcclUniqueId* id) = nullptr;
  int (*init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) = nullptr;
  int (*async_error)(NcclComm comm, int* result) = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm,
                    void* stream) = nullptr;
  int (*finalize)(NcclComm comm) = nullptr;
  int (*destroy)(NcclComm comm) = nullptr;
  int (*abort)(NcclComm comm) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;
};

/// NCCL, or why there is none.
struct NcclLibrary {
  NcclFunctions functions;
  int version = 0;  // 0: none
  std::string why;  // then, why

  /// "2.28.9".
  std::string version_text() const;
};

/// Opens a library by its name or path. It stays open until the process ends.
NcclLibrary open_nccl_library(const std::string& file);
/// libnccl.so.2, where the system looks for libraries. Found once.
const NcclLibrary& find_nccl();

}  // namespace babelring
