#pragma once

#include <unistd.h>

namespace babelring {

/// Owns a file descriptor and closes it on destruction. A negative number means no file.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace babelring
