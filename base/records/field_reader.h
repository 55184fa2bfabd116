#pragma once

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/records/record_fields.h"

namespace babelring {

/// A JSON value as text, shortened for an error message.
std::string found_json(const json::value& value);

/// A visitor for visit_fields() that reads a record's members from a JSON object; the inverse of FieldWriter. Keeps the
/// first error and reads nothing after it.
class FieldReader {
 public:
  /// `place` prefixes each member name in errors: "records[3].". Unknown members are an error, unless `unknown` is
  /// given to count them.
  FieldReader(const json::object& in, std::string place, UnknownMembers* unknown = nullptr);

  template <class T>
  void required(std::string_view name, T& value) {
    if (in_.contains(name)) {
      (*this)(name, value);
    } else if (error_.empty()) {
      error_ = fmt::format("{}{}: expected, but absent", place_, name);
    }
  }
  template <class T>
  void operator()(std::string_view name, T& value) {
    known_.emplace_back(name);
    const json::value* member = in_.if_contains(name);
    if (member != nullptr && error_.empty()) read(name, *member, value);
  }

  template <class T>
  void if_known(std::string_view name, T& value) {
    (*this)(name, value);
  }

  /// Marks a member as known without reading it.
  void leave(std::string_view name) { known_.emplace_back(name); }

  /// The first error so far, or "".
  const std::string& error() const { return error_; }

  /// Call after the last member: checks for unknown members. Returns the first error, or "".
  const std::string& finish();

 private:
  bool knows(std::string_view name) const;
  void set_error(std::string_view name, std::string_view wanted, const json::value& value);

  void read(std::string_view name, const json::value& in, double& out);
  void read(std::string_view name, const json::value& in, std::int64_t& out);
  void read(std::string_view name, const json::value& in, bool& out);
  void read(std::string_view name, const json::value& in, std::string& out);
  void read(std::string_view, const json::value& in, json::value& out) { out = in; }
  void read(std::string_view name, const json::value& in, std::map<std::string, std::int64_t>& out);
  void read(std::string_view name, const json::value& in, std::vector<double>& out);
  template <class T>
  void read(std::string_view name, const json::value& in, std::vector<T>& out) {
    if (!in.is_array()) return set_error(name, "an array of objects", in);
    for (std::size_t i = 0; i < in.get_array().size() && error_.empty(); ++i) {
      const json::value& element = in.get_array()[i];
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!element.is_object()) return set_error(place, "an object", element);
      FieldReader reader(element.get_object(), place_ + place + ".", unknown_);
      visit_fields(out.emplace_back(), reader);
      error_ = reader.finish();
    }
  }

  const json::object& in_;
  std::string place_;
  std::string error_;
  UnknownMembers* unknown_;
  std::vector<std::string> known_;
  const json::object* non_finite_ = nullptr;
  std::size_t non_finite_used_ = 0;
};

}  // namespace babelring
