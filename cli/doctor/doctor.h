#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// `nmt doctor`: looks at this machine before a run, and says what to do. Fails, for exit code 1, if something does not
/// work.
void add_doctor(CLI::App& app);

}  // namespace babelring
