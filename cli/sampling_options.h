#pragma once

#include <utility>
#include <vector>

#include "nmt/decode/translator.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace babelring {

/// Options of subcommands that can draw translations instead of searching them.
class SamplingOptions {
 public:
  /// Adds --sample and its options to a command that has the options of ModelOptions::declare(). They are bound to this
  /// object, which must outlive `command`.
  void declare(CLI::App& command);

  /// Sets how `options` finds `n_best` translations of a line: by beam search or by samples. Throws UsageFailure if the
  /// command line's options do not go together.
  void choose(TranslateOptions& options, int n_best) const;

 private:
  bool given_ = false, distinct_ = false, independent_ = false;
  DrawOptions draw_;
  std::vector<CLI::Option*> details_;  // options that need --sample
  CLI::Option* beam_ = nullptr;
};

}  // namespace babelring
