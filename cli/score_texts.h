#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/metrics/metric.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace babelring {

/// Adds --tokenize, bound to `choice`, which must outlive `app`. The option throws UsageFailure if a model cannot be
/// opened.
void add_tokenize(CLI::App& app, TokenizerChoice& choice);

/// The mode of `nmt score` that compares texts with references: scores of one or several systems, their confidence
/// intervals, and tests of whether systems differ from the first.
class TextScores {
 public:
  /// Adds the options. They are bound to this object, which must outlive `command`.
  void declare(CLI::App& command);

  /// Reads the texts and prints their scores. Throws UsageFailure on options or texts that do not fit together.
  void run(bool as_json);

 private:
  enum class PairedTest { none, bootstrap, randomization };
  struct Texts;
  struct Score;

  void declare_metrics(CLI::App& command);
  void declare_tests(CLI::App& command);
  void check_options() const;
  Texts read_texts() const;
  void check_tokenizer(const Texts& texts) const;
  std::int64_t samples_for(bool bootstrap) const;
  std::string resampling_signature() const;
  std::vector<Score> scores_by(const Metric& metric, const Texts& texts) const;
  void print_json(const Texts& texts, const std::vector<std::vector<Score>>& by_metric) const;
  void print_one(const std::vector<std::vector<Score>>& by_metric) const;
  void print_table(const Texts& texts, const std::vector<std::vector<Score>>& by_metric) const;

  std::vector<std::string> references_, hypotheses_, metrics_ = {"bleu"};
  TokenizerChoice tokenizer_;
  MetricOptions options_;
  std::string smoothing_ = "exp";
  bool lowercase_ = false, sentence_ = false, confidence_ = false;
  PairedTest paired_ = PairedTest::none;
  std::int64_t samples_ = 0;  // 0: the usual number
  std::uint64_t seed_ = 12345;
  CLI::Option* seed_option_ = nullptr;
};

}  // namespace babelring
