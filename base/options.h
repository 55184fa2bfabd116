#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"

namespace babelring {

/// One key of a configuration, bound to a member of an option struct.
struct OptionField {
  std::string key;   // dotted path: optimizer.learning_rate
  std::string help;  // with unit and consequence
  std::string type;  // "number", "integer", "integer or WORD", "text", "true/false", "list", or the allowed words a|b|c
  std::function<std::string()> get;
  /// Parses and checks a scalar as written; throws UsageFailure "expected …, found '…'".
  std::function<void(const std::string&)> set;
  /// Of lists only, else empty: the items one by one (an item may hold a comma).
  std::function<std::vector<std::string>()> get_list = {};
  std::function<void(const std::vector<std::string>&)> set_list = {};
};

/// Binds YAML keys and `key=value` overrides to members of plain structs.
///
///     struct AdamOptions {
///       double beta1 = 0.9;
///       void bind(OptionBinder& b) { b.number("beta1", beta1, 0, 1, "decay of the first moment"); }
///     };
///
/// A struct may nest another: `b.group("optimizer", optimizer);`. The resolved configuration is dumped from the same
/// fields, so what is stored with a run is what was used.
class OptionBinder {
 public:
  void number(const char* key, double& member, double low, double high, const char* help);
  /// A number, or `word`, which stands for the member's value `meaning`.
  void number_or(const char* key, double& member, double low, double high, const char* word, double meaning,
                 const char* help);
  void integer(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high, const char* help);
  void integer(const char* key, int& member, int low, int high, const char* help);
  /// An integer, or `word`, which stands for the member's value `meaning`.
  void integer_or(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high, const char* word,
                  std::int64_t meaning, const char* help);
  void flag(const char* key, bool& member, const char* help);
  void text(const char* key, std::string& member, const char* help);
  /// A text that must be one of `allowed`.
  void choice(const char* key, std::string& member, std::vector<std::string> allowed, const char* help);
  /// A YAML sequence of scalars, or a comma-separated override.
  void list(const char* key, std::vector<std::string>& member, const char* help);

  template <class Struct>
  void group(const char* key, Struct& nested) {
    const std::string outer = prefix_;
    prefix_ += std::string(key) + ".";
    nested.bind(*this);
    prefix_ = outer;
  }

  const std::vector<OptionField>& fields() const { return fields_; }
  /// The field of a dotted key, or null.
  const OptionField* find(std::string_view key) const;
  /// All dotted keys, in declared order.
  std::vector<std::string> keys() const;

 private:
  void add(OptionField field);
  std::string prefix_;
  std::vector<OptionField> fields_;
};

/// Loads YAML text into the bound members. Refuses unknown keys (naming the nearest), wrong types, values out of range,
/// duplicate keys, what is not UTF-8, more than 1 MiB and nesting over 16, each with `file:line:column`. Throws
/// UsageFailure.
void load_yaml(const OptionBinder& binder, std::string_view yaml, std::string_view file_name);

/// Applies `key=value`. Throws UsageFailure naming the key and the nearest known one.
void apply_override(const OptionBinder& binder, std::string_view assignment);

/// All fields as YAML, in declared order, nested by their dotted keys. load_yaml reads it back to equal values.
std::string dump_yaml(const OptionBinder& binder);

/// A table for --help: key, type, default, help.
std::string describe(const OptionBinder& binder);

}  // namespace babelring
