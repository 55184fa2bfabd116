#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"

namespace babelring {

/// A source split into parts that are translated separately. The concatenated parts are the whole source.
struct SplitSource {
  std::vector<std::span<const std::int32_t>> parts;
  bool inside_sentence = false;  // a sentence was too long and was cut between words or inside a word
};

/// Splits a source (subword ids without </s>) of more than `max_pieces` ids at sentence ends. A sentence end is one of
/// . ! ? … or their Arabic, Devanagari or ideographic counterparts, optionally followed by closing quotes, before the
/// start of a word. A full stop after a number, an abbreviation or a short word is used only if there is no better
/// place. A source of at most `max_pieces` is one part; an empty one has no parts.
SplitSource split_source(std::span<const std::int32_t> source, const Vocabulary& vocabulary, std::int64_t max_pieces);

/// Joins the translations of a source's parts, in order, to one line.
std::string join_parts(const std::vector<std::string>& parts);

}  // namespace babelring
