#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// A whole number as people write it: 1234567 → "1,234,567". Fractions are rounded.
std::string grouped(double number);

/// A number with its unit and at most two decimals: "1 epoch", "2.5 epochs", "100,000 updates". `unit` is singular.
std::string counted(double number, std::string_view unit);

}  // namespace babelring
