#include "nmt/comm/mpi/handles.h"

#include <array>
#include <string_view>

#include "nmt/comm/communicator.h"

namespace babelring {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommError(fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

MpiChannel::MpiChannel() {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &handle_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

bool MpiRequest::test() {
  if (handle_ == MPI_REQUEST_NULL) return true;
  int done = 0;
  check_mpi(MPI_Test(&handle_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace babelring
