#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nmt/data/prepare.h"

namespace babelring {

/// A --train of `nmt prepare` and what follows it.
struct TrainOption {
  std::vector<std::string> files;  // source and target in turn, or a file that holds both sides
  std::string name, tag;           // of --as and --tag; empty: not given
};

/// Sets the name (--as) or the tag (--tag) of the last --train. Throws UsageFailure if there is no --train, it has one
/// already, or the text cannot be a name or a tag.
void name_text(std::vector<TrainOption>& train, const std::string& name);
void tag_text(std::vector<TrainOption>& train, const std::string& tag);

/// The corpora of all --train, of which there must be one, by their names in the order in which these first occur, or a
/// single one without a name. Files that are given again, also by other names, count once, with a warning: a list that
/// a shell made has links and overlapping patterns. Throws UsageFailure if only some have names, a corpus has several
/// tags or only files that were given before, or a file stands in a wrong place.
std::vector<NamedText> training_texts(const std::vector<TrainOption>& train);

/// An input of --valid or --test. Throws UsageFailure.
std::optional<TextFiles> held_out_files(const std::string& option, const std::vector<std::string>& given);

}  // namespace babelring
