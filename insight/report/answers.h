#pragma once

#include "insight/report/answer.h"
#include "insight/report/run_history.h"

/// The twelve answers of a report, each a pure function of the run's records.
namespace babelring::insight {

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
