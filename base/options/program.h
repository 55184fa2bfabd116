#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace babelring {

/// Runs a program from its start to its end and returns its exit code: that of `work`; 2 if the user's input is wrong
/// (UsageFailure); 1 if `work` throws another exception, or if standard output cannot take all that was printed. The
/// reason is one line "NAME: …" on standard error, as far as that can be written.
///
/// A standard stream that is closed is opened first, on /dev/null and so that its use fails: otherwise the next file
/// would get its number, and lines of the log would be written into that file. A write past the limit on the size of
/// files (ulimit -f) is an error, it does not end the process.
int run_program(std::string_view name, const std::function<int()>& work);

/// Lost standard output is no failure up to here: for a service, which says where it listens and then may outlive its
/// reader.
void forgive_lost_output();

/// The reason why something failed, on one line: what(), or that there is no memory left.
std::string reason(const std::exception& failure);

/// Writes `text` to standard error, as far as that can be written.
void print_error(std::string_view text);

/// Columns of the terminal that the descriptor leads to; 0: no terminal, or it does not say.
int terminal_columns(int descriptor);

}  // namespace babelring
