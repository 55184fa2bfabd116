#include "base/records/field_writer.h"

#include <cmath>

namespace babelring {
namespace {

std::string_view non_finite_name(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

void FieldWriter::operator()(std::string_view name, double value) {
  if (std::isfinite(value)) {
    out_.emplace(name, value);
  } else {
    out_.emplace(name, nullptr);
    non_finite_.emplace(name, non_finite_name(value));
  }
}

void FieldWriter::operator()(std::string_view name, const std::map<std::string, std::int64_t>& values) {
  json::object object;
  for (const auto& [key, value] : values) object.emplace(key, value);
  out_.emplace(name, std::move(object));
}

void FieldWriter::finish() {
  if (!non_finite_.empty()) out_.emplace("non_finite", std::move(non_finite_));
}

}  // namespace babelring
