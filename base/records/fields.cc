#include "base/records/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace babelring {

std::string found_json(const json::value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = printable(to_text(value));
  std::size_t end = 60;
  if (text.size() <= end) return text;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a UTF-8 sequence
  return text.substr(0, end) + "…";
}

FieldReader::FieldReader(const json::object& in, std::string place, UnknownMembers* unknown)
    : in_(in), place_(std::move(place)), unknown_(unknown) {
  const json::value* names = in_.if_contains("non_finite");
  if (names == nullptr) return;
  known_.emplace_back("non_finite");
  if (names->is_object()) {
    non_finite_ = &names->get_object();
  } else {
    set_error("non_finite", "an object", *names);
  }
}

bool FieldReader::knows(std::string_view name) const {
  return std::find(known_.begin(), known_.end(), name) != known_.end();
}

const std::string& FieldReader::finish() {
  for (const auto& member : in_) {
    if (!error_.empty()) break;
    const std::string name(member.key());
    if (knows(name)) continue;
    if (unknown_ == nullptr) {
      error_ = fmt::format("{}{}: unknown member{}", place_, printable(name), did_you_mean(name, known_));
    } else if (unknown_->count++ == 0) {
      unknown_->first = place_ + printable(name);
    }
  }
  if (non_finite_ == nullptr || !error_.empty()) return error_;
  const auto meant = std::count_if(non_finite_->begin(), non_finite_->end(), [this](const auto& entry) {
    return unknown_ == nullptr || knows(entry.key());  // skipped, unknown members may be listed
  });
  if (static_cast<std::ptrdiff_t>(non_finite_used_) != meant) {
    error_ = fmt::format("{}non_finite: names a member that is not a null number", place_);
  }
  return error_;
}

void FieldReader::set_error(std::string_view name, std::string_view wanted, const json::value& value) {
  if (error_.empty()) error_ = fmt::format("{}{}: expected {}, found {}", place_, name, wanted, found_json(value));
}

void FieldReader::read(std::string_view name, const json::value& in, double& out) {
  if (in.is_number()) {
    out = in.to_number<double>();
    return;
  }
  const json::value* word = in.is_null() && non_finite_ != nullptr ? non_finite_->if_contains(name) : nullptr;
  if (word == nullptr) return set_error(name, "a number (or null and an entry in non_finite)", in);
  ++non_finite_used_;
  if (*word == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (*word == "inf") {
    out = std::numeric_limits<double>::infinity();
  } else if (*word == "-inf") {
    out = -std::numeric_limits<double>::infinity();
  } else {
    set_error(fmt::format("non_finite.{}", name), "\"nan\", \"inf\" or \"-inf\"", *word);
  }
}

void FieldReader::read(std::string_view name, const json::value& in, std::int64_t& out) {
  if (!in.is_int64()) return set_error(name, "an integer", in);
  out = in.get_int64();
}

void FieldReader::read(std::string_view name, const json::value& in, bool& out) {
  if (!in.is_bool()) return set_error(name, "true or false", in);
  out = in.get_bool();
}

void FieldReader::read(std::string_view name, const json::value& in, std::string& out) {
  if (!in.is_string()) return set_error(name, "a string", in);
  out = std::string(std::string_view(in.get_string()));
}

void FieldReader::read(std::string_view name, const json::value& in, std::map<std::string, std::int64_t>& out) {
  if (!in.is_object()) return set_error(name, "an object of integers", in);
  for (const auto& member : in.get_object()) {
    read(fmt::format("{}.{}", name, printable(member.key())), member.value(), out[std::string(member.key())]);
  }
}

void FieldReader::read(std::string_view name, const json::value& in, std::map<std::string, double>& out) {
  if (!in.is_object()) return set_error(name, "an object of numbers", in);
  for (const auto& member : in.get_object()) {
    read(fmt::format("{}.{}", name, printable(member.key())), member.value(), out[std::string(member.key())]);
  }
}

void FieldReader::read(std::string_view name, const json::value& in, std::vector<double>& out) {
  if (!in.is_array()) return set_error(name, "an array of numbers", in);
  for (const json::value& element : in.get_array()) {
    if (!element.is_number()) return set_error(fmt::format("{}[{}]", name, out.size()), "a number", element);
    out.push_back(element.to_number<double>());
  }
}

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

void FieldWriter::finish() {
  if (!non_finite_.empty()) out_.emplace("non_finite", std::move(non_finite_));
}

}  // namespace babelring
