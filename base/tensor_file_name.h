#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// The first word of the file names of a checkpoint's weights and moments. Each kind is in one file or in shards.
inline constexpr std::string_view weight_tensors = "weights", optimizer_tensors = "optimizer";

/// The name of a checkpoint's file: weights.safetensors, or weights-00002-of-00004.safetensors for shard 1 (from 0)
/// of 4.
std::string tensor_file_name(std::string_view tensors, int shard = 0, int shards = 1);

/// The number of files into which these tensors are divided, by the name of one of them: 4 for
/// weights-00002-of-00004.safetensors, 1 for weights.safetensors. 0 for any other name.
int shards_of_file(std::string_view name, std::string_view tensors);

}  // namespace babelring
