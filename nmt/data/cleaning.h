#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nmt/data/prepare.h"

namespace babelring {

/// A part of a set: a corpus with a name, or all of it.
struct SetPart {
  std::string corpus, tag;  // empty: no name, no tag
  std::vector<TextFiles> inputs;
  PrepareReport report;
};

/// A set's inputs and reports.
struct SetWork {
  std::string name;
  std::vector<SetPart> parts;
  bool held_out = false;

  /// The sum of all parts; it has those of the corpora.
  PrepareReport report() const;
};

/// The parts of the cleaned pairs of a set, one after another.
class PartOfPair {
 public:
  explicit PartOfPair(SetWork& set) : part_(set.parts.begin()), left_(part_->report.kept()) {}
  SetPart& next() {
    while (left_ == 0) left_ = (++part_)->report.kept();
    --left_;
    return *part_;
  }

 private:
  std::vector<SetPart>::iterator part_;
  std::int64_t left_;  // pairs of part_
};

/// The sets of the options, held-out sets first, because training excludes their text.
std::vector<SetWork> sets_of(const PrepareOptions& options);

/// The first pass of prepare(): reads the pairs of sets, reports on them and hands over those that are kept.
class Cleaning {
 public:
  /// `file`: of the source.
  using Keep = std::function<void(const SetPart& part, const TextPair& pair, const std::string& file)>;

  /// The options must outlive it. Throws Failure as PairFilter does.
  explicit Cleaning(const PrepareOptions& options) : options_(options), filter_(options.filter) {}

  /// Reads a set; the held-out sets must come first. Throws Failure as PairReader does, and if files that name their
  /// languages differ in them.
  void clean(SetWork& set, const Keep& keep);

 private:
  /// A pair that waits until the filter has learned.
  struct Waiting {
    SetPart& part;
    TextPair pair;
    std::string file;
  };
  void read(SetPart& part, bool held_out, const Keep& keep, std::vector<Waiting>& waiting);
  void judge(SetPart& part, bool held_out, const TextPair& pair, const std::string& file, const Keep& keep);
  void judge_waiting(const Keep& keep, std::vector<Waiting>& waiting);
  void require_direction(const std::string& file, const std::string& found);

  const PrepareOptions& options_;
  PairFilter filter_;
  std::string direction_, direction_file_;  // languages, and the first file that names them
};

}  // namespace babelring
