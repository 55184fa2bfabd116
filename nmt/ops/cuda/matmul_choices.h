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

/// The algorithm that was chosen for a product, with its time.
struct ProductChoice {
  /// As the library hands it out, which may be stored for the same version; absent: the library is not to compute this.
  std::optional<std::array<std::uint64_t, 8>> algorithm;
  float first_ms = 0, chosen_ms = 0;  // of the library's first proposal and of the choice; 0: not timed

  bool operator==(const ProductChoice&) const = default;
};

/// Choices of algorithms by product, kept in a file (docs/formats.md, "Chosen products") so that a run that goes on, or
/// is repeated, computes the same bits.
class ProductChoices {
 public:
  /// Reads the file and appends to it from now on; makes it, and its folder, if it is absent. Choices that were made on
  /// another GPU or with another version of cuBLASLt are discarded, as are lines from the first damaged one on;
  /// message() says so. An empty path: choices are kept in memory only. Throws Failure if the file cannot be read or
  /// written.
  ProductChoices(std::filesystem::path file, std::string gpu, std::string cublaslt);

  /// What the user should know, in one line; empty: nothing.
  const std::string& message() const { return message_; }
  /// Null: nothing was chosen yet. `shape` is a choice_shape().
  const ProductChoice* find(const ProductShape& shape) const;
  /// Throws Failure if the line cannot be written.
  void add(const ProductShape& shape, const ProductChoice& choice);

 private:
  /// Takes the choices out of a file's text and returns the part of it that holds.
  std::string take(const std::string& text);

  std::filesystem::path file_;
  std::string gpu_, cublaslt_, message_;
  std::map<ProductKey, ProductChoice> choices_;
  std::ofstream out_;
};

}  // namespace babelring::cuda
