#pragma once

namespace CLI {
class App;
}

namespace babelring {

/// `nmt translate`: lines of text in, their translations out.
void add_translate(CLI::App& app);

}  // namespace babelring
