#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace babelring {

/// True for the name of a checkpoint's folder: "update-" and a number that fits into 64 bits.
bool is_checkpoint_name(std::string_view name);

/// The mark of the best checkpoint in a folder of checkpoints.
inline constexpr const char* best_name = "best";

/// The name of the checkpoint that `best` marks in a folder of checkpoints, whether or not that is there. `best` is a
/// link to it; on a file system without links a file with its name; after a copy that followed links a folder with the
/// same files. "best" if it is a checkpoint without such a sibling; empty if nothing is marked.
std::string best_checkpoint_name(const std::filesystem::path& checkpoints);

}  // namespace babelring
