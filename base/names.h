#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring {

/// Checks that `text` is safe to display as a name. The error names the offending character and its byte offset, from
/// 0. Refused: invalid UTF-8, control characters, line and paragraph separators,
/// and invisible format characters such as U+202E, which reverses the direction of text. All scripts are allowed.
Status check_name(std::string_view text);

/// Checks the labels of a run: at most 64, with names of 1 to 64 bytes without '=' and texts of at most 256 bytes as
/// values, all as check_name() accepts them.
Status check_labels(const json::object& labels);

/// Labels written as KEY=VALUE. The Error quotes the first that is none.
Result<json::object> parse_labels(const std::vector<std::string>& texts);

/// Creates an id: `prefix`, '_' and a ULID (26 Crockford base-32 digits: 48 bits of wall-clock ms, 80 random bits).
std::string make_id(char prefix);
/// The same from a time and, in place of the random bits, the SHA-256 of `content`: equal for equal arguments.
std::string make_id(char prefix, std::int64_t time_ms, std::string_view content);
bool valid_id(std::string_view id, char prefix);

/// True for the name of a checkpoint's folder: "update-" and a number that fits into 64 bits.
bool is_checkpoint_name(std::string_view name);

/// The mark of the best checkpoint in a folder of checkpoints.
inline constexpr const char* best_name = "best";

/// The name of the checkpoint that `best` marks in a folder of checkpoints, whether or not that is there. `best` is a
/// link to it; on a file system without links a file with its name; after a copy that followed links a folder with the
/// same files. "best" if it is a checkpoint without such a sibling; empty if nothing is marked.
std::string best_checkpoint_name(const std::filesystem::path& checkpoints);

/// The file of a checkpoint's weights in int8, in its folder. No file of the checkpoint: state.json does not list it,
/// and it may be removed at any time.
inline constexpr const char* quantized_file_name = "int8.safetensors";

/// The first word of the file names of a checkpoint's weights and moments. Each kind is in one file or in shards.
inline constexpr std::string_view weight_tensors = "weights", optimizer_tensors = "optimizer";

/// The name of a checkpoint's file: weights.safetensors, or weights-00002-of-00004.safetensors for shard 1 (from 0)
/// of 4.
std::string tensor_file_name(std::string_view tensors, int shard = 0, int shards = 1);

/// The number of files into which these tensors are divided, by the name of one of them: 4 for
/// weights-00002-of-00004.safetensors, 1 for weights.safetensors. 0 for any other name.
int shards_of_file(std::string_view name, std::string_view tensors);

/// A file of a prepared folder or a checkpoint, as listed in its manifest.
struct ManifestFile {
  std::string name;  // relative to the folder
  std::int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

}  // namespace babelring
