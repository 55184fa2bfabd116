#pragma once

#include <string>

namespace CLI {
class App;
}

namespace babelring {

class OptionBinder;

/// The program's manual page (section 1) as roff for man(7), generated from its commands and options and from the
/// `keys` of its configuration. Without keys the page has no section about them.
std::string man_page(const CLI::App& app, const OptionBinder& keys);

/// Adds the option `--man-page`. It prints the page and ends the program. `app` and `keys` must outlive the parsing of
/// the command line.
void add_man_page_option(CLI::App& app, const OptionBinder& keys);

}  // namespace babelring
