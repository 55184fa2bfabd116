#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// Formats a number with thousands separators, rounded to an integer: 1234567 → "1,234,567".
std::string grouped(double number);

/// Formats a number with its unit and at most two decimals: "1 epoch", "2.5 epochs", "100,000 updates". `unit` is
/// singular.
std::string counted(double number, std::string_view unit);

}  // namespace babelring
