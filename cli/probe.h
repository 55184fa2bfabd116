#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt probe`, which records every tensor of an update and compares such records.
void add_probe(CLI::App& app);

}  // namespace babelring
