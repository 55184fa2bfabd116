#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/result.h"
#include "nmt/ops/cuda/matmul_shape.h"

namespace babelring::cuda {

/// The algorithm chosen for a matmul, with its time.
struct MatmulChoice {
  std::array<std::uint64_t, 8> algorithm{};  // the library's 64 bytes, valid for the same version of the library
  float first_ms = 0, chosen_ms = 0;         // times of the library's first proposal and of the choice; 0: not measured

  bool operator==(const MatmulChoice&) const = default;
};

/// The algorithms chosen for matmuls, stored in a file (docs/formats.md, "Chosen matmul algorithms") so that a resumed
/// or repeated run computes the same bits.
class MatmulChoices {
 public:
  /// Reads the file, or creates it and its folder; add() appends to it. Discards choices made on another GPU or with
  /// another version of cuBLASLt, and all lines from the first damaged one on; see status(). With an empty path,
  /// choices are kept in memory only. Throws Failure if the file cannot be read or written.
  MatmulChoices(std::filesystem::path file, std::string gpu, std::string cublaslt);

  /// The Error says in one line which choices of the file were discarded, and why.
  const Status& status() const { return status_; }
  /// The choice for a choice_shape(); null if there is none.
  const MatmulChoice* find(const MatmulShape& shape) const;
  /// Throws Failure if the line cannot be written.
  void add(const MatmulShape& shape, const MatmulChoice& choice);

 private:
  /// Reads the choices from a file's text. Returns the part of the text that is valid.
  std::string take(const std::string& text);

  std::filesystem::path file_;
  std::string gpu_, cublaslt_;
  Status status_;
  std::map<MatmulKey, MatmulChoice> choices_;
  std::ofstream out_;
};

}  // namespace babelring::cuda
