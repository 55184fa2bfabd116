#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt report`.
void add_report(CLI::App& app);

}  // namespace babelring
