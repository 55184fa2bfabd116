#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/interop/export.h"
#include "nmt/interop/import.h"

namespace babelring {

/// The tensor names of Marian's files.
extern const FormatNames npz_names;
inline constexpr std::string_view options_name = "special:model.yml", output_bias_name = "decoder_ff_logit_out_b";

/// A file of options: YAML in which each key has a scalar or a list of scalars.
class YamlOptions {
 public:
  /// Throws Failure that names `file` and the line.
  YamlOptions(std::string_view yaml, std::string file);
  /// The values of a key, a scalar as one; empty if the key is absent or its list is empty.
  const std::vector<std::string>& list(std::string_view name) const;
  /// `absent` if the key is absent or has a list.
  const std::string& scalar(std::string_view name, const std::string& absent) const;
  const std::map<std::string, std::vector<std::string>, std::less<>>& all() const { return values_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

/// The pieces of a vocabulary in YAML or JSON, `piece: id`, by id; empty where no piece has the id. Of a piece that is
/// there twice the first counts, as in Marian. Texts are taken as they stand: ~, no and 1 are pieces. Throws Failure
/// that names `file` and the line.
std::vector<std::string> yaml_pieces(std::string_view yaml, const std::string& file);

/// The model that the options of special:model.yml describe, without its biases. Throws Failure that names the first
/// option, and its value, that ours cannot compute.
ModelConfig model_of_options(const YamlOptions& options);

/// The texts that preprocess.sh of a release replaces before a SentencePiece model cuts: the rules s/A/B/g of its sed
/// commands, and control characters. Rules that are no plain texts are left out with a warning.
Replacements replacements_of_script(std::string_view script, const std::string& file);

/// All that an export needs to write a model as it was imported. It is kept with the vocabulary, whose ids it is about,
/// so that it survives all that trains with this vocabulary.
struct MarianOrigin {
  std::string options;                       // the bytes of special:model.yml
  std::vector<std::string> arrays;           // names in the order of the file
  std::string model;                         // the file's name
  std::vector<std::string> vocabularies;     // of source and target, by their names in `files`
  std::map<std::string, std::string> files;  // by name
  /// The row of theirs that each row of ours is; -1: none. `source_rows`: of encoder.embedding, if not the same.
  std::vector<std::int64_t> rows, source_rows;

  std::string packed() const;
  /// None if the content is of another version or empty, or has a path instead of a file's name.
  static std::optional<MarianOrigin> unpack(std::string_view content);
};

/// Reads a model of Marian: a folder, an .npz file in one, or the zip archive of a release of OPUS-MT. `vocabulary`:
/// the SentencePiece model of both sides of one that has a vocabulary in YAML and no source.spm. A model that is
/// compressed inside an archive is unpacked into a file without a name in the folder `scratch`. Throws Failure that
/// names file, option and value if a file is damaged or the model computes something that ours cannot.
ImportedModel read_marian(const std::filesystem::path& input, const std::filesystem::path& vocabulary,
                          const std::filesystem::path& scratch);
/// True for what read_marian() reads.
bool is_marian(const std::filesystem::path& input);

/// A SentencePiece model with the pieces of the table in our order, of which the given model has some. A code of a
/// language, >>fra<<, is a symbol; another piece that the model does not have is a control piece with another text,
/// that of an absent_piece if the table of the model's side has no row for it (-1). The model itself, if its pieces are
/// those of the table.
std::string with_pieces_of_table(std::string_view model, const std::vector<std::string>& table,
                                 const std::vector<std::int64_t>& rows);

}  // namespace babelring
