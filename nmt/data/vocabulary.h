#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace babelring {

/// Control ids of every vocabulary. There is no padding id, because batches are packed.
inline constexpr std::int32_t unk_id = 0;
inline constexpr std::int32_t bos_id = 1;
inline constexpr std::int32_t eos_id = 2;
inline constexpr std::int32_t first_free_id = 3;

struct VocabularyOptions {
  std::string model = "bpe";  // bpe or unigram
  int size = 8000;            // subwords, including <unk>, <s> and </s>
  double character_coverage = 1.0;
  bool byte_fallback = false;  // encode unknown characters as bytes instead of <unk>
  std::string normalization =
      "nmt_nfkc";  // SentencePiece normalization rule: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity
  std::vector<std::string> symbols;  // texts that are one piece each wherever they occur, such as >>fra<<; of `size`
};

enum class TextSide { source, target };

/// The beginning of a control piece that stands for a piece that only the other side has, in its model and its table.
inline constexpr std::string_view absent_piece = "<absent ";

/// A SentencePiece model that converts between text and subword ids, or two with the same ids: one that cuts the
/// source, and in field 1000 of its file, which SentencePiece ignores, one that cuts and joins the target. Thread-safe;
/// copies share the model.
class Vocabulary {
 public:
  /// Throws Failure naming the file if it is not a SentencePiece model, if its control ids are not unk=0, bos=1, eos=2
  /// without padding, or if the pieces of two models differ, but for control pieces where only one has a piece.
  static Vocabulary load(const std::filesystem::path& file);
  /// Loads a model from the content of its file; `name` is for messages.
  static Vocabulary from_bytes(std::string_view model, const std::string& name);

  /// Returns ids without <s> and </s>. Deterministic. Of two models, a text that the side's has no piece for has the id
  /// that it has in the other's, unless that of the side's is `absent_piece`.
  std::vector<std::int32_t> encode(std::string_view text, TextSide side = TextSide::source) const;
  /// Where in the text the part that each of the ids of encode() stands for ends, as a number of bytes. What is before
  /// it and after the end before, spaces included, belongs to the piece.
  std::vector<std::size_t> piece_ends(std::string_view text, TextSide side = TextSide::source) const;
  /// Converts ids to text, dropping <s> and </s>. Throws Failure if an id lies outside the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The subword text of an id; "▁" (U+2581) stands for a preceding space. Throws Failure if the id lies outside the
  /// vocabulary.
  const std::string& piece(std::int32_t id) const;

  std::int32_t size() const;
  /// The content of the model file when it was loaded.
  const std::string& bytes() const;
  /// SHA-256 of the model file.
  const std::string& digest() const;

 private:
  struct Model;
  explicit Vocabulary(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

/// Trains a model on lines from `next_line` until it returns false. Returns the content of the model file.
/// Deterministic: the same lines and options give the same model. SentencePiece keeps all lines in memory and skips
/// lines over 16 KiB. Throws Failure with SentencePiece's reason, for example too little text for the requested size.
std::string train_vocabulary(const VocabularyOptions& options, const std::function<bool(std::string&)>& next_line);

/// The contents of the model files in a vocabulary's file. If `target` is empty, `source` is the model of both sides.
/// `origin` is what an export needs to write the model again as another program had it (nmt/interop), field 1001 of the
/// file; empty: none.
struct VocabularyModels {
  std::string source, target, origin = {};
};
/// Throws Failure if the content of the vocabulary's file is no protobuf message.
VocabularyModels split_models(std::string_view file);
/// The content of a vocabulary's file with these models. Does not check them.
std::string join_models(const VocabularyModels& models);

/// The fields of a SentencePiece model that are needed to segment text without SentencePiece. Values are those of
/// sentencepiece_model.proto.
struct SubwordModel {
  enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  enum class ModelType { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string_view text;
    float score = 0;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces;  // by id
  ModelType type = ModelType::unigram;
  bool byte_fallback = false, starts_with_space = true, removes_spaces = true;
  std::string_view normalization, character_map;

  /// The views are of `bytes`. Throws Failure if they are no message.
  explicit SubwordModel(std::string_view bytes);
  bool folds_case() const { return normalization.ends_with("_cf"); }
  std::vector<std::int32_t> ids_of(PieceType wanted) const;

 private:
  void read_piece(std::string_view bytes);
  void read_trainer(std::string_view bytes);
  void read_normalizer(std::string_view bytes);
};

/// Throws UsageFailure unless each symbol is text without space, comma and quotation mark, and differs from the others.
/// `option`: that names them.
void check_symbols(const std::vector<std::string>& symbols, std::string_view option = "--symbols");
/// The content of a SentencePiece model's file with a piece more at the end for each symbol that it does not have; the
/// other pieces keep their ids. Throws UsageFailure if a symbol is an ordinary or a control piece of the model.
std::string with_symbols(const std::string& model, const std::vector<std::string>& symbols);

/// A text that a SentencePiece model replaces before it cuts, by what it replaces it by.
using Replacements = std::map<std::string, std::string, std::less<>>;
/// The content of the model's file with more replacements in its normalizer, precompiled_charsmap, which every program
/// with SentencePiece applies. They come before its own, and their results are not replaced again. Runs of spaces
/// become one, spaces at both ends are removed. Throws Failure if the content is damaged.
std::string with_replacements(std::string_view model, const Replacements& replacements);
/// The replacements in the normalizer of a SentencePiece model's file. Throws Failure if they are damaged.
Replacements replacements_of(std::string_view model);

/// The version of SentencePiece that the program was built with, which the library does not tell: "0.1.97". Empty:
/// unknown.
std::string sentencepiece_version();

/// Calls `action` with each index below `lines`, on `threads` threads (0: one per available CPU).
void for_each_line(std::size_t lines, int threads, const std::function<void(std::size_t)>& action);

/// Encodes each line to subword ids with `threads` threads (0: one per available CPU). The result does not depend on
/// the number of threads. Throws Failure.
std::vector<std::vector<std::int32_t>> encode_lines(const std::vector<std::string>& lines, TextSide side,
                                                    const Vocabulary& vocabulary, int threads);

/// Decodes each line's ids to text, likewise.
std::vector<std::string> decode_lines(const std::vector<std::vector<std::int32_t>>& ids, const Vocabulary& vocabulary,
                                      int threads);

}  // namespace babelring
