#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// Adds `nmt doctor`, which checks this machine before a run and gives advice. Throws Failure (exit code 1) if a check
/// fails.
void add_doctor(CLI::App& app);

}  // namespace babelring
