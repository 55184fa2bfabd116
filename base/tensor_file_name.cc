#include "base/tensor_file_name.h"

#include <fmt/format.h>

#include "base/parse_number.h"

namespace babelring {

std::string tensor_file_name(std::string_view tensors, int shard, int shards) {
  if (shards == 1) return fmt::format("{}.safetensors", tensors);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", tensors, shard + 1, shards);
}

int shards_of_file(std::string_view name, std::string_view tensors) {
  if (name == tensor_file_name(tensors)) return 1;
  if (name.size() != tensor_file_name(tensors, 0, 2).size()) return 0;
  const std::string_view numbers = name.substr(tensors.size() + 1);  // 00002-of-00004.safetensors
  const int shard = parse_number<int>(numbers.substr(0, 5)).value_or(0);
  const int shards = parse_number<int>(numbers.substr(9, 5)).value_or(0);
  const bool one_of_them = shard >= 1 && shard <= shards && shards >= 2;
  return one_of_them && name == tensor_file_name(tensors, shard - 1, shards) ? shards : 0;
}

}  // namespace babelring
