#pragma once

#include <string>

namespace babelring {

/// A whole number as people write it: 1234567 → "1,234,567". Fractions are rounded.
std::string grouped(double number);

}  // namespace babelring
