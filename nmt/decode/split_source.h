#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"

namespace babelring {

/// A source in parts that are translated apart. The parts in order are the whole source.
struct SplitSource {
  std::vector<std::span<const std::int32_t>> parts;
  bool inside_sentence = false;  // a sentence was too long, and is cut between words or even inside one
};

/// Splits a source (pieces without </s>) of more than `max_pieces` at the ends of its sentences. A sentence end is one
/// of . ! ? … and their Arabic, Devanagari and ideographic counterparts, perhaps with closing quotes behind it, before
/// the beginning of a word; a full stop after a number, an abbreviation or a short word counts only where nothing
/// better fits. A source of at most `max_pieces` is one part, an empty one none.
SplitSource split_source(std::span<const std::int32_t> source, const Vocabulary& vocabulary, std::int64_t max_pieces);

/// The translations of the parts of one source, in order, as one line.
std::string join_parts(const std::vector<std::string>& parts);

}  // namespace babelring
