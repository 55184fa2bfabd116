#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "insight/predict/predict.h"

namespace CLI {
class App;
}

namespace babelring {

/// A prediction with the run that it is for, as JSON.
json::object prediction_json(const insight::RankRecord& record, const insight::RunSetup& setup,
                             const insight::Prediction& prediction);

/// The columns of csv_row(), and one prediction as a line of CSV, both with a newline.
std::string csv_header();
std::string csv_row(const insight::RunSetup& setup, const insight::Prediction& prediction);

/// "412.3 ms, 401.0 to 424.1 (compute ± 0.4 %, 3 comparisons)", or "…, error unknown".
std::string step_with_error(const insight::RankRecord& record, const insight::Prediction& prediction);

/// "1 h 20 min" or "35 s".
std::string duration_text(double seconds);

/// Adds `nmt emulate`, whose subcommands predict runs from the times of one rank.
void add_emulate(CLI::App& app);

void add_emulate_record(CLI::App& emulate);
void add_emulate_run(CLI::App& emulate);
void add_emulate_scale(CLI::App& emulate);
void add_emulate_gpus(CLI::App& emulate);
void add_emulate_stalls(CLI::App& emulate);
void add_emulate_link(CLI::App& emulate);
void add_emulate_compare(CLI::App& emulate);

}  // namespace babelring
