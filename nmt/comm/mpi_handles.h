#pragma once

#include <mpi.h>

#include <utility>

namespace babelring {

/// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS. `call` is the name of the MPI function.
void check_mpi(int code, const char* call);

/// A duplicate of MPI_COMM_WORLD, so that its messages meet no others; errors are returned, not fatal.
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

/// One message or collective on its way. Its memory must stay until test() has said so.
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

  /// For the MPI call that starts it.
  MPI_Request* out() { return &handle_; }
  /// Whether it is complete (or was never started); drives MPI's progress. Never blocks. Throws CommError.
  bool test();

 private:
  void reset() {
    if (handle_ != MPI_REQUEST_NULL) MPI_Request_free(&handle_);
  }
  MPI_Request handle_ = MPI_REQUEST_NULL;
};

}  // namespace babelring
