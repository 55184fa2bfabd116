#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/special_ids.h"

namespace babelring {

struct VocabularyOptions {
  std::string model = "bpe";  // bpe or unigram
  int size = 8000;            // pieces, with <unk>, <s> and </s>
  double character_coverage = 1.0;
  bool byte_fallback = false;              // characters outside the vocabulary become bytes instead of <unk>
  std::string normalization = "nmt_nfkc";  // SentencePiece's rule: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity
};

/// A SentencePiece model: text to ids and back. Thread-safe; copies share the model.
class Vocabulary {
 public:
  /// Throws Failure naming the file if it is no SentencePiece model, or its control ids are not unk=0, bos=1, eos=2
  /// without padding.
  static Vocabulary load(const std::filesystem::path& file);
  /// The same from the model file's content; `name` is for messages.
  static Vocabulary from_bytes(std::string_view model, const std::string& name);

  /// Ids without <s> and </s>; always the same for the same text.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Text of ids; <s> and </s> are dropped. Throws Failure on an id outside the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// A piece as the model writes it: "▁" (U+2581) stands for the space before it. Throws Failure on an id outside the
  /// vocabulary.
  const std::string& piece(std::int32_t id) const;

  std::int32_t size() const;
  /// The model file's content, as it was when it was loaded.
  const std::string& bytes() const;
  /// SHA-256 of the model file.
  const std::string& digest() const;

 private:
  struct Model;
  explicit Vocabulary(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

/// Trains a model on the lines that `next_line` gives until it returns false; returns the model file's content.
/// Deterministic: the same lines and options give the same model. All lines are held in memory by SentencePiece; lines
/// over 16 KiB are left out. Throws Failure with SentencePiece's reason, such as too little text for the size.
std::string train_vocabulary(const VocabularyOptions& options, const std::function<bool(std::string&)>& next_line);

}  // namespace babelring
