#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nmt/data/manifest.h"
#include "nmt/data/pair_filter.h"
#include "nmt/data/prepare_report.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// A part of the training text with a name, by which runs weigh it (data.mix) and report its loss.
struct NamedText {
  std::string name;              // as is_corpus_name()
  std::string tag;               // put before each source line, and made a symbol of the vocabulary; empty: none
  std::vector<TextFiles> files;  // read one after another
};

/// Whether `name` may name a corpus: 1 to 40 letters, digits, _ and - of ASCII, not - first, and not `until`, a key of
/// data.mix.
bool is_corpus_name(std::string_view name);

/// Training pairs that a model did not learn, see find_suspects().
struct Suspects {
  std::filesystem::path file;                      // where they were found
  std::string vocabulary;                          // digest of the model in whose pieces they are
  double fraction = 0;                             // of the pairs of the file
  std::unordered_map<std::uint64_t, double> kept;  // by pair_hash(): later loss over earlier loss

  /// Throws Failure unless they are in pieces of this vocabulary.
  void check(const Vocabulary& used) const;
  /// The part of its loss that a pair kept, if it is among them.
  std::optional<double> find(std::span<const std::int32_t> source, std::span<const std::int32_t> target) const;
};

struct PrepareOptions {
  std::vector<TextFiles> train;    // read one after another; empty with `corpora`
  std::vector<NamedText> corpora;  // instead of `train`; a pair that several have belongs to the first of them
  std::optional<TextFiles> valid,
      test;                      // held-out sets: stored with their text; only invalid and empty lines are dropped
  PairChoice choice;             // of files that hold both sides
  std::filesystem::path output;  // folder; created if missing
  std::filesystem::path use_vocabulary;  // existing SentencePiece model to use; if empty, one is trained
  VocabularyOptions vocabulary;          // options for training a vocabulary
  std::int64_t vocabulary_lines =
      4'000'000;  // max training lines for the vocabulary, both languages together; sampled uniformly
  FilterOptions filter;
  std::int64_t max_pieces = 256;  // training pairs with more subwords on either side are dropped
  double max_unknown = 0.4;       // training pairs with a larger fraction of <unk> on either side are dropped
  std::shared_ptr<const Suspects> suspects;  // training pairs that are dropped; null: none
  bool align = false;                        // align the pieces of the training pairs, for training.guided_alignment
  Unequal unequal = Unequal::refuse;
  int threads = 0;  // encoding threads; 0: one per available CPU. Does not affect the result
};

/// The options as stored in the manifest: everything that affects the result.
json::object to_json(const PrepareOptions& options);

struct PrepareResult {
  Manifest manifest;
  std::vector<PrepareReport> reports;  // train with its corpora, valid, test
};

/// Converts raw parallel text to a folder for Corpus, ParallelText and Vocabulary:
///
///     spm.model                            joint vocabulary
///     train.source.ids, train.target.ids   subword ids; also valid.* and test.*
///     train.links                          with `align`: aligned pieces of the training pairs
///     valid.source.txt, valid.target.txt   raw text of held-out sets; also test.*
///     report.json                          counts and examples of dropped pairs
///     manifest.json                        sizes, digests, counts, options; written last
///
/// The first pass cleans the text into temporary files in the folder (a WorkFolder, so a second process is refused),
/// the second encodes it. The vocabulary is trained on the pairs that both keep. Memory holds only hashes of the pairs
/// and SentencePiece's training lines. The same input and options give identical files. Once all files are written, an
/// older manifest is removed and the files are moved into place. So a folder with a manifest is always complete, and a
/// failure before that leaves an older result intact. Throws Failure, also if a set has no pairs left.
PrepareResult prepare(const PrepareOptions& options);

/// The reports of the first pass, which writes nothing: no pieces, and nothing about what encoding drops. Needs no
/// output folder. Throws Failure.
std::vector<PrepareReport> try_cleaning(const PrepareOptions& options);

}  // namespace babelring
