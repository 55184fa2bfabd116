#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt translate`, which translates text line by line.
void add_translate(CLI::App& app);

}  // namespace babelring
