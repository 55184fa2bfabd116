#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nmt/data/manifest.h"
#include "nmt/data/pair_reader.h"
#include "nmt/data/prepare_report.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

struct PrepareOptions {
  std::vector<TextFiles> train;          // one after another
  std::optional<TextFiles> valid, test;  // held-out sets: kept with their text, only invalid and empty lines dropped
  std::filesystem::path output;          // folder; made if absent
  std::filesystem::path use_vocabulary;  // an existing SentencePiece model; empty: train one
  VocabularyOptions vocabulary;          // of the one to train
  std::int64_t vocabulary_lines = 4'000'000;  // most lines it is trained on, both languages together; evenly sampled
  FilterOptions filter;
  std::int64_t max_pieces = 256;  // training pairs with more on either side are dropped
  double max_unknown = 0.4;       // likewise those with a larger share of <unk> among the pieces of either side
  Unequal unequal = Unequal::refuse;
  int threads = 0;  // that encode; 0: as many as the machine has. The result does not depend on it
};

/// As the manifest keeps them: everything that the result depends on.
json::object to_json(const PrepareOptions& options);

struct PrepareResult {
  Manifest manifest;
  std::vector<PrepareReport> reports;  // train, valid, test
};

/// Raw parallel text into a folder that Corpus, ParallelText and Vocabulary read:
///
///     spm.model                            the joint vocabulary
///     train.source.ids, train.target.ids   likewise valid.*, test.*
///     valid.source.txt, valid.target.txt   raw text of held-out sets, likewise test.*
///     report.json                          what was dropped and why
///     manifest.json                        sizes, digests, counts, options: written last
///
/// One pass cleans into temporary files in the folder (removed at the end), a second encodes: memory holds hashes of
/// the pairs and what SentencePiece trains on. The same input and options give the same bytes. The files move to their
/// places when all are written, an earlier manifest being removed first: a folder with a manifest is always complete,
/// and a refusal leaves what was there. Throws Failure, also if no pair of one of the sets is left.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace babelring
