#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "nmt/interop/export.h"

namespace babelring {

/// A tensor in the mapped file of another program.
struct ImportedTensor {
  enum class Type { f32, f16, bf16 };

  std::vector<std::int64_t> shape;
  Type type = Type::f32;
  std::span<const std::byte> bytes;  // row-major, little-endian, not aligned

  /// The elements, widened to f32.
  std::vector<float> values() const;
};

/// A model of another program, before its tensors have found their places.
struct ImportedModel {
  MappedFile file;
  ModelConfig model;
  std::string vocabulary;  // content of the SentencePiece model's file
  FormatNames names;
  std::map<std::string, ImportedTensor> tensors;  // by their names in the format
};

/// Reads a folder for CTranslate2's Translator: model.bin (binary version 5 or 6) with matrices in f32, f16 or bf16,
/// config.json, shared_vocabulary.json, and `vocabulary`, a SentencePiece model; if empty, sentencepiece.model of the
/// folder or beside it. Throws Failure that names file, option and value if a file is damaged or the model computes
/// something that ours cannot.
ImportedModel read_ctranslate2(const std::filesystem::path& folder, const std::filesystem::path& vocabulary);

struct ImportOptions {
  std::filesystem::path input, vocabulary;
  std::string command;  // the command line, stored as state.imported_by of the checkpoint
};

/// Writes another program's model as a checkpoint into the new folder `output`: weights.safetensors, config.yaml,
/// spm.model, state.json, SHA256SUMS. It appears when it is complete. Returns the checkpoint's model options.
///
/// Throws UsageFailure if `output` exists or the input is of no known format, Failure if the input is damaged, has a
/// tensor too much, too little or of another shape, or computes something that ours cannot.
ModelConfig import_checkpoint(const ImportOptions& options, const std::filesystem::path& output);

}  // namespace babelring
