#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "nmt/ops/cuda/matmul_shape.h"

namespace babelring::cuda {

/// The algorithm that was chosen for a matmul, with its time.
struct MatmulChoice {
  /// As the library hands it out, which may be stored for the same version; absent: the library is not to compute this.
  std::optional<std::array<std::uint64_t, 8>> algorithm;
  float first_ms = 0, chosen_ms = 0;  // of the library's first proposal and of the choice; 0: not timed

  bool operator==(const MatmulChoice&) const = default;
};

/// Choices of algorithms by matmul, kept in a file (docs/formats.md, "Chosen matmuls") so that a run that goes on, or
/// is repeated, computes the same bits.
class MatmulChoices {
 public:
  /// Reads the file and appends to it from now on; makes it, and its folder, if it is absent. Choices that were made on
  /// another GPU or with another version of cuBLASLt are discarded, as are lines from the first damaged one on;
  /// message() says so. An empty path: choices are kept in memory only. Throws Failure if the file cannot be read or
  /// written.
  MatmulChoices(std::filesystem::path file, std::string gpu, std::string cublaslt);

  /// What the user should know, in one line; empty: nothing.
  const std::string& message() const { return message_; }
  /// Null: nothing was chosen yet. `shape` is a choice_shape().
  const MatmulChoice* find(const MatmulShape& shape) const;
  /// Throws Failure if the line cannot be written.
  void add(const MatmulShape& shape, const MatmulChoice& choice);

 private:
  /// Takes the choices out of a file's text and returns the part of it that holds.
  std::string take(const std::string& text);

  std::filesystem::path file_;
  std::string gpu_, cublaslt_, message_;
  std::map<MatmulKey, MatmulChoice> choices_;
  std::ofstream out_;
};

}  // namespace babelring::cuda
