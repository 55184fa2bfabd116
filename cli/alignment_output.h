#pragma once

#include <string>

#include "base/json.h"
#include "nmt/decode/translator.h"

namespace CLI {
class App;
}

namespace babelring {

/// The options of alignments, bound to this object, which must outlive the command.
struct AlignmentOptions {
  enum class Kind { none, hard, soft };
  enum class Unit { words, pieces };
  Kind kind = Kind::none;
  Unit unit = Unit::words;
  AttentionChoice choice;

  void declare(CLI::App& command);
  /// The choice for a model, if alignments are asked for or needed. Throws UsageFailure unless the model has that
  /// attention.
  std::optional<AttentionChoice> choose(const Transformer& model, bool needed = false) const;
};

/// A hard alignment in Moses' form, "0-0 1-1", or the rows of a soft one in Marian's, by piece and with </s>:
/// "0.9,0.1 0.2,0.8".
std::string alignment_text(const Translation& translation, const Rendering& rendering, const Vocabulary& vocabulary,
                           const AlignmentOptions& options);

/// Adds the members `alignment`, `piece_alignment` (arrays of pairs), `source_pieces`, `pieces` and, with `soft`,
/// `attention`.
void add_alignment(json::object& object, const Translation& translation, const Rendering& rendering,
                   const Vocabulary& vocabulary, bool soft);

}  // namespace babelring
