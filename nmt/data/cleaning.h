#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nmt/data/prepare.h"

namespace babelring {

/// A set's inputs and report.
struct SetWork {
  std::string name;
  std::vector<TextFiles> inputs;
  bool held_out = false;
  PrepareReport report{name};
};

/// The sets of the options, held-out sets first, because training excludes their text.
std::vector<SetWork> sets_of(const PrepareOptions& options);

/// The first pass of prepare(): reads the pairs of sets, reports on them and hands over those that are kept.
class Cleaning {
 public:
  /// `file`: of the source.
  using Keep = std::function<void(const TextPair& pair, const std::string& file)>;

  /// The options must outlive it. Throws Failure as PairFilter does.
  explicit Cleaning(const PrepareOptions& options) : options_(options), filter_(options.filter) {}

  /// Reads a set; the held-out sets must come first. Throws Failure as PairReader does, and if files that name their
  /// languages differ in them.
  void clean(SetWork& set, const Keep& keep);

 private:
  void judge(SetWork& set, const TextPair& pair, const std::string& file, const Keep& keep);
  void require_direction(const std::string& file, const std::string& found);

  const PrepareOptions& options_;
  PairFilter filter_;
  std::string direction_, direction_file_;  // languages, and the first file that names them
};

}  // namespace babelring
