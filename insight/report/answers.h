#pragma once

#include <string>
#include <utility>
#include <vector>

#include "insight/plot.h"
#include "insight/report/run_history.h"

namespace babelring::insight {

/// A number that an answer gives.
struct AnswerNumber {
  std::string name;  // in snake case, for programs
  double value = 0;  // NaN: unknown
  std::string unit;  // "ms", "s", "bytes", "updates"; empty: a ratio
};

struct AnswerTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// The answer to one question about a run.
struct Answer {
  int question_number = 0;
  std::string key;  // in snake case, for programs
  std::string question;
  bool known = true;      // false: the text says why it cannot be told
  std::string text = {};  // one to four sentences
  std::vector<AnswerNumber> numbers = {};
  std::vector<AnswerTable> tables = {};
  std::vector<Plot> plots = {};
  std::vector<std::string> rests_on = {};  // records and assumptions

  void add(std::string name, double value, std::string unit = {}) {
    numbers.push_back({std::move(name), value, std::move(unit)});
  }
  /// Sets the text to "Cannot be told, because …".
  void cannot_be_told(const std::string& because) {
    known = false;
    text = "Cannot be told, because " + because + ".";
  }
};

// The twelve answers of a report, each a pure function of the run's records.

Answer how_long(const RunHistory& history);
Answer trained_to_the_end(const RunHistory& history);
Answer overfitting(const RunHistory& history);
Answer fully_used(const RunHistory& history);
Answer network_bottleneck(const RunHistory& history);
Answer learning_rate_plot(const RunHistory& history);
Answer training_set(const RunHistory& history);
Answer checkpoint_files(const RunHistory& history);
Answer checkpoint_size(const RunHistory& history);
Answer average_step(const RunHistory& history);
Answer step_and_network(const RunHistory& history);
Answer quality_over_time(const RunHistory& history);

}  // namespace babelring::insight
