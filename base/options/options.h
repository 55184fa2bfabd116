#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/choices.h"
#include "base/failure.h"
#include "base/result.h"

namespace babelring {

/// An invalid configuration. what() is "FILE:LINE:COLUMN: DETAIL", or DETAIL if the place is unknown.
struct ConfigError : UsageFailure {
  ConfigError(std::string of_key, std::string what, std::string in_file = {}, int at_line = 0, int at_column = 0);

  std::string file;          // empty if unknown
  int line = 0, column = 0;  // from 1; 0 if unknown
  std::string key;           // dotted; empty if the error concerns no single key
  std::string detail;        // one line that names the key
};

class OptionBinder;

/// A YAML sequence of mappings that is bound to a vector of structs.
struct OptionItems {
  static constexpr std::size_t max_items = 1024;

  std::function<std::size_t()> size;
  std::function<void()> clear;
  std::function<void()> append;  // a default item
  /// The keys of item `number`, from 1, such as nodes.2.alpha. 0: those of a default item, such as nodes.N.alpha.
  std::function<OptionBinder(std::size_t number)> bind;
};

/// A YAML mapping of scalars with free keys, in its order.
using OptionMap = std::vector<std::pair<std::string, std::string>>;

/// A configuration key bound to a member of an option struct.
struct OptionField {
  std::string key;   // dotted path: optimizer.learning_rate
  std::string help;  // with unit and consequence
  std::string type;  // "number", "integer", "integer or WORD", "text", "true/false", "list", "list of keys", "map or
                     // maps", or the allowed words a|b|c
  std::function<std::string()> get;
  /// Parses, checks and stores a scalar. Throws UsageFailure "expected …, found '…'".
  std::function<void(const std::string&)> set;
  /// Set for lists only. Items are passed separately, since an item may contain a comma.
  std::function<std::vector<std::string>()> get_list = {};
  std::function<void(const std::vector<std::string>&)> set_list = {};
  /// Set for mappings with free keys only. get() formats them on one line, which set() parses.
  std::function<std::vector<OptionMap>()> get_maps = {};
  std::function<void(const std::vector<OptionMap>&)> set_maps = {};
  /// Set for sequences of mappings only. get() formats them on one line; set() always throws.
  std::shared_ptr<const OptionItems> items = {};
};

/// Binds YAML keys and `key=value` overrides to members of plain structs.
///
///     struct AdamOptions {
///       double beta1 = 0.9;
///       void bind(OptionBinder& b) { b.number("beta1", beta1, 0, 1, "decay of the first moment"); }
///     };
///
/// Structs nest: `b.group("optimizer", optimizer);`. Vectors of structs are sequences: `b.items("nodes", nodes, "…");`,
/// whose items are numbered from 1 (`nodes.2.alpha=0.1`) and bind plain keys only, neither groups nor items.
/// dump_yaml() reads the same fields, so the configuration stored with a run is the configuration in effect. Bounds
/// `low` and `high` are inclusive. The bound structs must outlive the binder.
class OptionBinder {
 public:
  void number(const char* key, double& member, double low, double high, const char* help);
  /// A number or `word`; `word` sets the member to `meaning`.
  void number_or(const char* key, double& member, double low, double high, const char* word, double meaning,
                 const char* help);
  void integer(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high, const char* help);
  void integer(const char* key, int& member, int low, int high, const char* help);
  /// An integer or `word`; `word` sets the member to `meaning`.
  void integer_or(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high, const char* word,
                  std::int64_t meaning, const char* help);
  void flag(const char* key, bool& member, const char* help);
  void text(const char* key, std::string& member, const char* help);
  /// One of the words in `allowed`.
  void choice(const char* key, std::string& member, const std::vector<std::string>& allowed, const char* help);
  /// The value of one of the words: b.choice("norm", norm, {{"pre", Norm::pre}, {"post", Norm::post}}, "…").
  template <class Enum>
    requires std::is_enum_v<Enum>
  void choice(const char* key, Enum& member, const Choices<std::type_identity_t<Enum>>& choices, const char* help) {
    add_choice(
        key, words_of(choices), [&member, choices] { return word_of(choices, member); },
        [&member, choices](std::size_t index) { member = choices[index].second; }, help);
  }
  /// A value with a text form, such as Interval: `static Result<T> parse(std::string_view)` and `std::string text()`.
  /// parse(text()) must give the same value.
  template <class T>
  void parsed(const char* key, T& member, const char* help) {
    const auto set = [&member](const std::string& text) {
      Result<T> value = T::parse(text);
      if (!value) throw UsageFailure(value.error());
      member = std::move(value).value();
    };
    add({.key = key, .help = help, .type = "text", .get = [&member] { return member.text(); }, .set = set});
  }
  /// A YAML sequence of scalars, or a comma-separated override.
  void list(const char* key, std::vector<std::string>& member, const char* help);
  /// A YAML mapping of scalars with free keys, or a sequence of such mappings, of at most OptionItems::max_items; an
  /// override has them in YAML's flow style: {a: 1, b: 2} or [{a: 1}, {b: 2}]. {} and [] are none.
  void maps(const char* key, std::vector<OptionMap>& member, const char* help);

  template <class Struct>
  void group(const char* key, Struct& nested) {
    const std::string outer = prefix_;
    prefix_ += std::string(key) + ".";
    nested.bind(*this);
    prefix_ = outer;
  }

  /// A YAML sequence of mappings, of at most OptionItems::max_items. Loading a sequence replaces the items of `member`.
  template <class Struct>
  void items(const char* key, std::vector<Struct>& member, const char* help) {
    const auto bind = [&member, path = prefix_ + key, example = std::make_shared<Struct>()](std::size_t number) {
      OptionBinder binder;
      binder.prefix_ = path + '.' + (number == 0 ? "N" : std::to_string(number)) + '.';
      (number == 0 ? *example : member.at(number - 1)).bind(binder);
      return binder;
    };
    add_items(key,
              {.size = [&member] { return member.size(); },
               .clear = [&member] { member.clear(); },
               .append = [&member] { member.emplace_back(); },
               .bind = bind},
              help);
  }

  const std::vector<OptionField>& fields() const { return fields_; }
  /// The field of a dotted key, which may be that of an item, or nothing. It is valid until items are added or removed.
  std::optional<OptionField> find(std::string_view key) const;
  /// All dotted keys, in order of declaration, those of the present items included.
  std::vector<std::string> keys() const;

 private:
  void add(OptionField field);
  void add_choice(const char* key, std::vector<std::string> words, std::function<std::string()> get,
                  std::function<void(std::size_t index)> set, const char* help);
  void add_items(const char* key, OptionItems items, const char* help);

  std::string prefix_;
  std::vector<OptionField> fields_;
};

/// Where a key stands in a text. Line and column count from 1.
struct TextPosition {
  int line = 0, column = 0;
};
/// Places by dotted key: "optimizer", "optimizer.rate", "nodes.2" (an item), "nodes.2.alpha".
using OptionPlaces = std::map<std::string, TextPosition>;

/// Loads YAML text into the bound members and returns the place of each key in it. A list in place of a section's keys
/// is the list of the section's only items. Throws ConfigError on unknown keys (naming the nearest known key), wrong
/// types, values out of range, duplicate keys, invalid UTF-8, texts over 1 MiB and nesting deeper than 16.
OptionPlaces load_yaml(const OptionBinder& binder, std::string_view yaml, std::string_view file_name);

/// The same error with the place of its key in `file_name`, or of the nearest key above it; unchanged if none has one.
ConfigError with_place(const ConfigError& error, const OptionPlaces& places, const std::string& file_name);

/// Applies an override `key=value`. Throws ConfigError naming the key, and the nearest known key if it is unknown.
void apply_override(const OptionBinder& binder, std::string_view assignment);

/// Mappings as YAML on one line: "{}", "{a: 1, b: 2}", or "[{a: 1}, {b: 2}]" of several.
std::string dump_maps(const std::vector<OptionMap>& maps);
/// The inverse. Throws UsageFailure.
std::vector<OptionMap> parse_maps(const std::string& text);

/// Each item as YAML on one line: "{name: a, rate: 0.1}".
std::vector<std::string> dump_items(const OptionItems& items);

/// Formats all fields as YAML, in order of declaration, nested by dotted key. load_yaml() reads back equal values.
std::string dump_yaml(const OptionBinder& binder);

/// A table for --help with the columns key, type, default and help.
std::string describe(const OptionBinder& binder);

}  // namespace babelring
