#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// The tensors of one or several safetensors files, as if they were in one: the weights or the moments of a checkpoint.
/// Views are valid as long as the object.
class TensorFiles {
 public:
  /// Maps the files, at least one. Throws the Failures of SafetensorsReader, and one that names both files if two have
  /// a tensor of the same name.
  explicit TensorFiles(const std::vector<std::filesystem::path>& files);

  const std::vector<SafetensorsReader>& files() const { return files_; }
  /// The names of all tensors, in the order of files and of positions in them.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return file_of_.contains(name); }

  /// Like SafetensorsReader::tensor().
  ConstTensor tensor(std::string_view name) const;
  ConstTensor tensor(std::string_view name, const Shape& shape, DType dtype = DType::f32) const;

 private:
  const SafetensorsReader& reader_of(std::string_view name) const;

  std::vector<SafetensorsReader> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> file_of_;  // by name of the tensor: index in files_
};

}  // namespace babelring
