#include "nmt/data/work_folder.h"

#include <system_error>
#include <utility>

#include "base/failure.h"

namespace babelring {

namespace fs = std::filesystem;

WorkFolder::WorkFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) fail("cannot clear folder {}: {}", path_.string(), error.message());
  made_ = path_;
  while (made_.has_parent_path() && !fs::exists(made_.parent_path(), error)) made_ = made_.parent_path();
  if (!fs::create_directories(path_, error)) fail("cannot create folder {}: {}", path_.string(), error.message());
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  for (fs::path folder = path_; folder != made_;) {
    folder = folder.parent_path();
    if (!fs::remove(folder, ignored)) return;
  }
}

LineWriter::LineWriter(const fs::path& file) : file_(file), stream_(file, std::ios::binary | std::ios::trunc) {
  check();
}

void LineWriter::add(std::string_view line) {
  stream_ << line << '\n';
  check();
}

void LineWriter::finish() {
  stream_.close();
  check();
}

void LineWriter::check() const {
  if (!stream_) fail("cannot write {}", file_.string());
}

}  // namespace babelring
