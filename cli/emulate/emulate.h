#pragma once

namespace CLI {
class App;
}

namespace babelring {

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
