#pragma once

#include <cstdint>
#include <string>

namespace babelring::insight {

// Numbers as a report prints them.

/// "1 d 2 h", "23 h 47 min", "5 min 3 s", "12.3 s", "0.53 s".
std::string duration_words(double seconds);
/// "1,713 ms", "41.2 ms", "0.53 ms".
std::string ms_words(double ms);
/// "73 %", "0.8 %".
std::string percent_words(double fraction);
/// 10^6 bytes: "365.3 MB", "1,240 MB".
std::string megabytes_words(double bytes);
/// Powers of 1024: "812.85 MiB", "3.1 KiB", "512 bytes".
std::string bytes_words(double bytes);
/// Thousands separators: "50,000".
std::string count_words(double count);
/// "1 update", "50,000 updates". `noun` is singular.
std::string count_of(double count, const std::string& noun);
/// Four significant digits: "1.594", "0.0009882".
std::string number_words(double value);
/// Rounds to six significant digits, so that the order of a sum does not show.
double rounded(double value);

}  // namespace babelring::insight
