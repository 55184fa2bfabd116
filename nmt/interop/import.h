#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "nmt/interop/export.h"

namespace babelring {

/// A tensor in the mapped file of another program.
struct ImportedTensor {
  enum class Type { f32, f16, bf16 };

  std::vector<std::int64_t> shape;
  Type type = Type::f32;
  std::span<const std::byte> bytes;  // row-major, little-endian, not aligned
  bool is_mapped = true;             // lie in a MappedFile

  /// The elements, widened to f32.
  std::vector<float> values() const;
};

/// A model of another program, before its tensors have found their places.
struct ImportedModel {
  std::shared_ptr<const void> file;  // that the tensors view
  std::string file_name = {};        // for messages; empty: the input
  ModelConfig model;
  std::string vocabulary;  // content of the SentencePiece model's file
  FormatNames names;
  std::map<std::string, ImportedTensor> tensors;  // by their names in the format
  /// The row of theirs that each row of our tables and output bias is; -1: none, zeros, and a bias at which it is never
  /// chosen. Empty: the same.
  std::vector<std::int64_t> rows;
  std::int64_t their_rows = 0;  // of tables, if `rows` is not empty
  /// `rows` and `their_rows` of encoder.embedding, if that is a separate table with other pieces; empty: as above.
  std::vector<std::int64_t> source_rows;
  std::int64_t their_source_rows = 0;
  bool sines_first = false;    // the order of their features; false: ours
  bool is_transposed = false;  // matrices but tables are [in, out], vectors [1, n], as Marian has them
  json::object release = {};   // the file that was imported and those in it, stored as state.release
};

/// Reads a folder for CTranslate2's Translator: model.bin (binary version 5 or 6) with matrices in f32, f16 or bf16,
/// config.json, shared_vocabulary.json, and `vocabulary`, a SentencePiece model; if empty, sentencepiece.model of the
/// folder or beside it. Throws Failure that names file, option and value if a file is damaged or the model computes
/// something that ours cannot.
ImportedModel read_ctranslate2(const std::filesystem::path& folder, const std::filesystem::path& vocabulary);

/// Reads a folder of a MarianMTModel: config.json, model.safetensors in f32, f16 or bf16, vocab.json, source.spm and
/// target.spm. `positions`: those that the model was trained with. Throws Failure as above.
ImportedModel read_huggingface(const std::filesystem::path& folder, Positions positions);

struct ImportOptions {
  std::filesystem::path input, vocabulary;
  Positions positions = Positions::sinusoid;  // of a folder of Hugging Face
  std::string command;                        // the command line, stored as state.imported_by of the checkpoint
};

/// Writes another program's model as a checkpoint into the new folder `output`: weights.safetensors, config.yaml,
/// spm.model, state.json, SHA256SUMS. It appears when it is complete. Returns the checkpoint's model options.
///
/// Throws UsageFailure if `output` exists or the input is of no known format, Failure if the input is damaged, has a
/// tensor too much, too little or of another shape, or computes something that ours cannot.
ModelConfig import_checkpoint(const ImportOptions& options, const std::filesystem::path& output);

}  // namespace babelring
