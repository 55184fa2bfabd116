#pragma once

#include <mpi.h>

#include <cstdint>
#include <utility>

namespace babelring {

/// Throws CommError with MPI's error text unless `code` is MPI_SUCCESS. `call` is the name of the MPI function.
void check_mpi(int code, const char* call);

/// The tag of a collective's point-to-point messages: its number, within the tags that MPI guarantees. Messages between
/// two ranks are matched in the order in which they were started, and two collectives start theirs in different orders
/// on different ranks, so no other tag may be used: 32,768 collectives are never in flight together.
inline int tag_of(std::int64_t sequence) {
  return static_cast<int>(sequence % 32768);
}

/// A duplicate of MPI_COMM_WORLD with its own message space. Errors are returned, not fatal.
class MpiChannel {
 public:
  /// Collective over all ranks. Throws CommError.
  MpiChannel();
  ~MpiChannel() { MPI_Comm_free(&handle_); }
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;
  MPI_Comm get() const { return handle_; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// A nonblocking MPI operation. Its buffers must stay valid until test() returns true.
class MpiRequest {
 public:
  MpiRequest() = default;
  ~MpiRequest() { reset(); }
  MpiRequest(MpiRequest&& other) noexcept : handle_(std::exchange(other.handle_, MPI_REQUEST_NULL)) {}
  MpiRequest& operator=(MpiRequest&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, MPI_REQUEST_NULL);
    }
    return *this;
  }

  /// Output argument for the MPI call that starts the operation.
  MPI_Request* out() { return &handle_; }
  /// True if the operation is complete or was never started. Drives MPI's progress and never blocks. Throws CommError.
  bool test();

 private:
  void reset() {
    if (handle_ != MPI_REQUEST_NULL) MPI_Request_free(&handle_);
  }
  MPI_Request handle_ = MPI_REQUEST_NULL;
};

}  // namespace babelring
