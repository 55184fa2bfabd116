#pragma once

#include <string>
#include <string_view>

namespace babelring::verdict {

/// The scalar at a dotted key in a configuration written by dump_yaml(): one key per line, two spaces per level. Empty
/// if absent. Does not understand other YAML.
std::string config_scalar(std::string_view yaml, std::string_view dotted_key);

/// The number at the start of a text; 0 if there is none.
double number_in(const std::string& text);

}  // namespace babelring::verdict
