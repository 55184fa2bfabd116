#include "base/options/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <system_error>

#include "base/failure.h"

namespace babelring {
namespace {

constexpr const char* output_is_lost = "standard output: cannot be written";

/// As the C library does for programs that change the user: what is read and written by mistake fails.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one: the streams below it are open.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) {
      fail("standard streams: {} is closed and /dev/null cannot be opened", stream);
    }
  }
}

/// False if something that was printed is lost.
bool flush_output() {
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !std::cout.bad();
}

int report_failure(std::string_view name, std::string_view line, int code) {
  print_error(fmt::format("{}: {}\n", name, line));
  return code;
}

}  // namespace

int run_program(std::string_view name, const std::function<int()>& work) {
  constexpr int failed = 1, wrong_usage = 2;
  try {
    open_standard_streams();
    std::signal(SIGXFSZ, SIG_IGN);
    const int code = work();
    return flush_output() ? code : report_failure(name, output_is_lost, failed);
  } catch (const UsageFailure& failure) {
    return report_failure(name, reason(failure), wrong_usage);
  } catch (const std::system_error& failure) {  // fmt::print throws it and names no stream
    return report_failure(name, std::ferror(stdout) != 0 ? output_is_lost : reason(failure), failed);
  } catch (const std::exception& failure) {
    return report_failure(name, reason(failure), failed);
  }
}

void forgive_lost_output() {
  flush_output();
  std::clearerr(stdout);
  std::cout.clear();
}

std::string reason(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) == nullptr) return failure.what();
  return "out of memory: the system refused more; free memory, raise its limit (ulimit -v), or choose smaller batches";
}

void print_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int terminal_columns(int descriptor) {
  struct winsize size{};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace babelring
