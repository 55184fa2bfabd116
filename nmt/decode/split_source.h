#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// A source split into parts that are translated separately. The concatenated parts are the whole source.
struct SplitSource {
  std::vector<std::span<const std::int32_t>> parts;
  bool inside_sentence = false;  // a sentence was too long and was cut between words or inside a word
};

/// Bounds within which a line is translated whole: subwords without </s>, and sentences.
struct LineSize {
  std::int64_t pieces = std::numeric_limits<std::int64_t>::max();
  std::int64_t sentences = std::numeric_limits<std::int64_t>::max();
  bool operator==(const LineSize&) const = default;
};

/// Splits a source (subword ids without </s>) at sentence ends if it exceeds `max_pieces` ids or `whole`. No part has
/// more than `max_pieces`; of a source within both, the only part is the source. An empty source has no parts.
///
/// A sentence end is one of . ! ? … or their counterparts in other scripts, optionally followed by closing quotes,
/// before the start of a word. An end inside quotes or parentheses, or before a small letter, is used only in a
/// sentence of more than `whole.pieces`. A full stop after a number, an abbreviation or a letter, or before a number,
/// is doubtful and used only in one of more than `max_pieces`, before any other place.
SplitSource split_source(std::span<const std::int32_t> source, const Vocabulary& vocabulary, std::int64_t max_pieces,
                         const LineSize& whole = {});

/// The usual size of a training set's source lines: 99 of 100 have no more subwords, 95 of 100 no more sentences. By a
/// sample of up to 10,000 lines, those of fewer than `max_length` subwords. A model that has seen few lines of several
/// sentences leaves some of them out, even where the line is short.
LineSize usual_line_size(const Corpus& corpus, const Vocabulary& vocabulary, std::int64_t max_length);

/// Joins the translations of a source's parts, in order, to one line.
std::string join_parts(const std::vector<std::string>& parts);

}  // namespace babelring
