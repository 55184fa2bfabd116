#include "insight/report/report_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/text.h"

namespace babelring::insight {
namespace {

/// Three significant digits below 1000, thousands separators above.
std::string amount_words(double value) {
  const double size = std::abs(value);
  if (size >= 999.5) return grouped(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string duration_words(double seconds) {
  if (seconds < 119.5) return amount_words(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  const std::int64_t hours = (minutes + 30) / 60;
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string ms_words(double ms) {
  return amount_words(ms) + " ms";
}

std::string percent_words(double fraction) {
  const double percent = 100 * fraction;
  if (percent != 0 && std::abs(percent) < 1) return fmt::format("{:.2g} %", percent);
  return fmt::format("{:.{}f} %", percent, std::abs(percent) < 9.95 ? 1 : 0);
}

std::string megabytes_words(double bytes) {
  const double megabytes = bytes * 1e-6;
  return (megabytes < 999.5 ? fmt::format("{:.1f}", megabytes) : grouped(megabytes)) + " MB";
}

std::string bytes_words(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} bytes", bytes);
  const char* unit = "KiB";
  double value = bytes / 1024;
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.2f} {}", value, unit);
}

std::string count_words(double count) {
  return grouped(count);
}

std::string count_of(double count, const std::string& noun) {
  return fmt::format("{} {}{}", grouped(count), noun, std::llround(count) == 1 ? "" : "s");
}

std::string number_words(double value) {
  return fmt::format("{:.4g}", value);
}

double rounded(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

}  // namespace babelring::insight
