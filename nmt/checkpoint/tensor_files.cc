#include "nmt/checkpoint/tensor_files.h"

#include "base/failure.h"
#include "base/log.h"

namespace babelring {

TensorFiles::TensorFiles(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files) {
    const SafetensorsReader& reader = files_.emplace_back(file);
    for (const SafetensorsEntry& entry : reader.entries()) {
      const auto [known, added] = file_of_.emplace(entry.name, files_.size() - 1);
      if (!added) {
        fail("safetensors {}: tensor '{}' is in {}, too", file.string(), printable(entry.name),
             files_[known->second].file().filename().string());
      }
      names_.push_back(entry.name);
    }
  }
}

ConstTensor TensorFiles::tensor(std::string_view name) const {
  return reader_of(name).tensor(name);
}

ConstTensor TensorFiles::tensor(std::string_view name, const Shape& shape, DType dtype) const {
  return reader_of(name).tensor(name, shape, dtype);
}

const SafetensorsReader& TensorFiles::reader_of(std::string_view name) const {
  if (const auto at = file_of_.find(name); at != file_of_.end()) return files_[at->second];
  if (files_.size() == 1) return files_.front();  // whose message names its file
  fail("safetensors {}: no tensor '{}', nor in the other {} of {} files", files_.front().file().string(),
       printable(name), files_.size() - 1, files_.size());
}

}  // namespace babelring
