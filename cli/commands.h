#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "nmt/data/pair_source.h"

namespace CLI {
class App;
}

namespace babelring {

/// Options of commands that read files which hold both sides of a parallel text.
struct PairChoiceOptions {
  std::vector<std::string> languages;
  std::vector<int> columns;

  /// Adds --languages and --columns to the command, which the options must outlive.
  void declare(CLI::App& command);
  PairChoice choice() const;
};

/// Adds `nmt average`, which averages the weights of checkpoints into a new checkpoint.
void add_average(CLI::App& app);

/// Adds `nmt augment`, which translates text of one language into pairs to train on.
void add_augment(CLI::App& app);

/// Appends usage examples to the help of each command. Call after all commands were added.
void add_examples(CLI::App& app);

/// Adds `nmt export`, which writes a checkpoint in the format of another program.
void add_export(CLI::App& app);
void add_import(CLI::App& app);

/// Adds `nmt interpolate`, which scores the weights between two checkpoints and writes those that it chooses.
void add_interpolate(CLI::App& app);

/// Adds `nmt prepare`, which converts raw parallel text into a prepared folder. Its callback does the work and throws
/// Failure.
void add_prepare(CLI::App& app);

/// Adds `nmt report`.
void add_report(CLI::App& app);

/// Adds `nmt score`, which computes BLEU, chrF and TER of texts against references. Its callback does the work and
/// throws Failure.
void add_score(CLI::App& app);

/// Adds `nmt shortlist`, which lists the target pieces that may render each source piece.
void add_shortlist(CLI::App& app);

/// Adds `nmt translate`, which translates text line by line.
void add_translate(CLI::App& app);

/// Adds `nmt evaluate`, which computes loss, BLEU and chrF of a checkpoint on a held-out set.
void add_evaluate(CLI::App& app);

/// Adds `what-if` to `nmt run`: asks the server how fast a run would be on other hosts, links and settings.
void add_what_if(CLI::App& run);

/// The server's answer as text: a table of the measured update beside predicted ones, warnings and assumptions.
std::string what_if_text(const json::object& answer);

/// Adds `nmt doctor`, which checks this machine before a run and gives advice. Throws Failure (exit code 1) if a check
/// fails.
void add_doctor(CLI::App& app);

/// Adds `nmt trace light`, which writes a line of times for each update, in the form of another tool's light profiler.
void add_trace_light(CLI::App& trace);

/// Adds `nmt trace`, whose subcommands show what the lab's tools wrote into the folder of a run.
void add_trace(CLI::App& app);

}  // namespace babelring
