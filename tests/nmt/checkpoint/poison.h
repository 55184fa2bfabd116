#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/digest.h"
#include "base/files.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// Sets one element of a weight in a stored checkpoint to `value` and updates the digests, as if a program without the
/// finite check had written it.
inline void poison_checkpoint(const std::filesystem::path& folder, const std::string& tensor, std::size_t element,
                              float value) {
  const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  const std::filesystem::path weights = folder / "weights.safetensors", state = folder / "state.json";
  const std::string weights_before = sha256_file(weights), state_before = sha256_file(state);
  const std::uint64_t begin = SafetensorsReader(weights).find(tensor)->begin + element * sizeof value;
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(begin)).write(reinterpret_cast<const char*>(&value), sizeof value);
  file.close();
  std::string text = read_file(state), sums = read_file(folder / "SHA256SUMS");
  replace(text, weights_before, sha256_file(weights));
  write_file_atomically(state, text);
  replace(sums, weights_before, sha256_file(weights));
  replace(sums, state_before, sha256_file(state));
  write_file_atomically(folder / "SHA256SUMS", sums);
}

}  // namespace babelring
