#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records/record_fields.h"

namespace babelring {

/// A visitor for visit_fields() that adds a record's members to a JSON object. A non-finite number is written as null;
/// the member `non_finite` then maps its name to "nan", "inf" or "-inf".
class FieldWriter {
 public:
  explicit FieldWriter(json::object& out) : out_(out) {}

  template <class T>
  void required(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  /// Writes nothing if the number is NaN.
  void if_known(std::string_view name, double value) {
    if (!std::isnan(value)) (*this)(name, value);
  }
  /// Writes nothing if the text is empty.
  void if_known(std::string_view name, const std::string& value) {
    if (!value.empty()) (*this)(name, value);
  }
  /// Writes nothing if the value is null.
  void if_known(std::string_view name, const json::value& value) {
    if (!value.is_null()) (*this)(name, value);
  }
  void operator()(std::string_view name, double value);
  void operator()(std::string_view name, std::int64_t value) { out_.emplace(name, value); }
  void operator()(std::string_view name, bool value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const std::string& value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const json::value& value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const std::map<std::string, std::int64_t>& values);
  void operator()(std::string_view name, const std::vector<double>& values) {
    out_.emplace(name, json::array(values.begin(), values.end()));
  }
  template <class T>
  void operator()(std::string_view name, const std::vector<T>& values) {
    json::array array;
    for (const T& value : values) {
      json::object object;
      FieldWriter writer(object);
      visit_fields(value, writer);
      array.push_back(std::move(object));
    }
    out_.emplace(name, std::move(array));
  }
  /// Call after the last member: adds `non_finite` if needed.
  void finish();

 private:
  json::object& out_;
  json::object non_finite_;
};

}  // namespace babelring
