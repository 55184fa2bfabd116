#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/options/options.h"
#include "base/text.h"

namespace babelring {
namespace {

constexpr std::size_t max_yaml_bytes = std::size_t{1} << 20;
constexpr std::size_t max_yaml_depth = 16;

/// Sets options from yaml-cpp's parser events, so that every error has a line and column. Refuses aliases: a flat list
/// of keys does not need them, and they allow exponential expansion.
class OptionReader : public YAML::EventHandler {
 public:
  OptionReader(const OptionBinder& binder, std::string_view file) : binder_(binder), file_(file) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail_at(mark, "aliases are not supported"); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { fail_at(mark, "anchors are not supported"); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (maps_) fail_in_maps(mark, "nothing");
    if (open_.empty()) return;  // empty document: all defaults
    require_item_keys(mark, "nothing");
    if (!key_) fail_at(mark, "expected a key, found nothing");
    const std::string wanted = in_list_ ? "text" : field_ ? field_->type : "keys below it";
    fail_at(mark, fmt::format("{}: expected {}, found nothing", *key_, wanted));
  }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override {
    if (maps_) return add_to_map(mark, value);
    if (open_.empty()) fail_at(mark, fmt::format("expected 'key: value', found '{}'", printable(value)));
    require_item_keys(mark, fmt::format("'{}'", printable(value)));
    if (in_list_) {
      scalars_.push_back(value);
    } else if (!key_) {
      begin_key(mark, value);
    } else {
      if (!field_) fail_at(mark, fmt::format("{}: expected keys below it, found '{}'", *key_, printable(value)));
      if (field_->items) {
        fail_at(mark, fmt::format("{}: expected {}, found '{}'", *key_, field_->type, printable(value)));
      }
      set(mark, [&] { field_->set(value); });
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    if (maps_) fail_in_maps(mark, "a list");
    if (key_ && field_ && field_->set_maps) return begin_maps(mark, true);
    if (!open_.empty()) require_item_keys(mark, "a list");
    if (!key_ || in_list_) fail_at(mark, "expected 'key: value', found a list");
    if (!field_) adopt_only_items();
    if (field_ && field_->items) return open_items(mark);
    if (!field_ || !field_->set_list) {
      fail_at(mark, fmt::format("{}: expected {}, found a list", *key_, field_ ? field_->type : "keys below it"));
    }
    in_list_ = true;
    list_mark_ = mark;
    scalars_.clear();
  }
  void OnSequenceEnd() override {
    if (maps_) return end_maps();
    if (!in_list_) {  // of items
      open_.pop_back();
      return end_value();
    }
    in_list_ = false;
    set(list_mark_, [&] { field_->set_list(scalars_); });
  }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    if (open_.size() >= max_yaml_depth) fail_at(mark, fmt::format("nested deeper than {}", max_yaml_depth));
    if (maps_ || (key_ && field_ && field_->set_maps)) return begin_map(mark);
    if (in_list_) fail_at(mark, fmt::format("{}: expected a list of scalars, found keys", *key_));
    if (!open_.empty() && open_.back().items) {
      append_item(mark);
    } else {
      if (!open_.empty() && !key_) fail_at(mark, "expected a key, found keys");
      if (field_) fail_at(mark, fmt::format("{}: expected {}, found keys", *key_, field_->type));
    }
    open_.push_back({.prefix = key_ ? *key_ + "." : std::string(), .items = nullptr});
    key_.reset();
  }
  void OnMapEnd() override {
    if (maps_) {
      maps_->in_map = false;
      if (!maps_->listed) end_maps();
      return;
    }
    open_.pop_back();
    end_value();
  }

  OptionPlaces places() && { return std::move(places_); }

 private:
  /// An open mapping, or an open sequence of items.
  struct Open {
    std::string prefix;                        // of the keys of a mapping, or of the numbers of items
    std::shared_ptr<const OptionItems> items;  // null for a mapping
  };

  /// The value of a field with set_maps, as far as it is read.
  struct Maps {
    YAML::Mark mark;
    bool listed = false, in_map = false;
    std::vector<OptionMap> read = {};
    std::optional<std::string> key = {};  // waits for its value
  };

  void begin_maps(const YAML::Mark& mark, bool listed) { maps_ = Maps{.mark = mark, .listed = listed}; }
  void begin_map(const YAML::Mark& mark) {
    if (!maps_) begin_maps(mark, false);
    if (maps_->in_map) fail_in_maps(mark, "keys");
    if (maps_->read.size() >= OptionItems::max_items) {
      fail_at(mark, fmt::format("{}: expected at most {} maps", *key_, OptionItems::max_items));
    }
    maps_->in_map = true;
    maps_->read.emplace_back();
  }
  void add_to_map(const YAML::Mark& mark, const std::string& value) {
    if (!maps_->in_map) fail_in_maps(mark, fmt::format("'{}'", printable(value)));
    if (maps_->key) {
      maps_->read.back().emplace_back(*maps_->key, value);
      maps_->key.reset();
    } else {
      maps_->key = value;
    }
  }
  void end_maps() {
    const Maps maps = *std::exchange(maps_, std::nullopt);
    const bool none = !maps.listed && maps.read.front().empty();
    set(maps.mark, [&] { field_->set_maps(none ? std::vector<OptionMap>() : maps.read); });
  }
  [[noreturn]] void fail_in_maps(const YAML::Mark& mark, const std::string& found) const {
    const std::string wanted = !maps_->in_map ? "keys"
                               : maps_->key   ? "a value for '" + printable(*maps_->key) + "'"
                                              : "a key";
    fail_at(mark, fmt::format("{}: expected {}, found {}", *key_, wanted, found));
  }

  [[noreturn]] void fail_at(const YAML::Mark& mark, const std::string& detail) const {
    throw ConfigError(printable(key_.value_or("")), detail, file_, mark.line + 1, mark.column + 1);
  }

  /// Refuses `found` where the items of a sequence stand.
  void require_item_keys(const YAML::Mark& mark, const std::string& found) const {
    if (!open_.back().items) return;
    fail_at(mark,
            fmt::format("{}{}: expected keys, found {}", open_.back().prefix, open_.back().items->size() + 1, found));
  }

  /// Lets a list that stands in place of a section's keys be that of the section's only items.
  void adopt_only_items() {
    for (const OptionField& field : binder_.fields()) {
      if (!field.items || !field.key.starts_with(*key_ + ".")) continue;
      if (field_) {
        field_.reset();
        return;
      }
      field_ = field;
    }
    if (field_) key_ = field_->key;
  }

  void open_items(const YAML::Mark& mark) {
    if (open_.size() >= max_yaml_depth) fail_at(mark, fmt::format("nested deeper than {}", max_yaml_depth));
    field_->items->clear();
    note_place(mark);
    open_.push_back({.prefix = *key_ + ".", .items = field_->items});
    end_value();
  }

  void append_item(const YAML::Mark& mark) {
    const OptionItems& items = *open_.back().items;
    if (items.size() >= OptionItems::max_items) {
      fail_at(mark, fmt::format("{}: expected at most {} items", open_.back().prefix, OptionItems::max_items));
    }
    items.append();
    key_ = open_.back().prefix + std::to_string(items.size());
    note_place(mark);
  }

  /// Notes that key_ stands here. Returns false if it stands elsewhere already.
  bool note_place(const YAML::Mark& mark) {
    return places_.emplace(*key_, TextPosition{mark.line + 1, mark.column + 1}).second;
  }

  void begin_key(const YAML::Mark& mark, const std::string& name) {
    key_ = open_.back().prefix + name;
    field_ = binder_.find(*key_);
    if (!field_) {
      const std::vector<std::string> keys = binder_.keys();
      const bool is_section = std::any_of(keys.begin(), keys.end(), [section = *key_ + "."](const std::string& key) {
        return key.starts_with(section);
      });
      if (!is_section) {
        fail_at(mark, fmt::format("unknown key '{}'{}", printable(*key_), did_you_mean_key(*key_, keys)));
      }
    }
    if (!note_place(mark)) fail_at(mark, fmt::format("key '{}' appears twice", *key_));
  }

  template <class Set>
  void set(const YAML::Mark& mark, Set&& assign) {
    try {
      assign();
    } catch (const UsageFailure& failure) {
      fail_at(mark, fmt::format("{}: {}", field_->key, failure.what()));
    }
    end_value();
  }

  void end_value() {
    key_.reset();
    field_.reset();
  }

  const OptionBinder& binder_;
  std::string file_;
  std::vector<Open> open_;            // outermost first
  OptionPlaces places_;               // of the keys so far
  std::optional<std::string> key_;    // dotted key that waits for its value
  std::optional<OptionField> field_;  // field of that key; nothing for a section
  std::optional<Maps> maps_;          // open value of a field with set_maps
  bool in_list_ = false;              // of scalars
  YAML::Mark list_mark_;
  std::vector<std::string> scalars_;  // of that list
};

std::vector<std::string> split_at_dots(const std::string& key) {
  std::vector<std::string> parts;
  std::istringstream stream(key);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  return parts;
}

/// Formats a scalar as YAML, quoted unless every YAML reader takes the plain form as the same text.
std::string yaml_scalar(const std::string& value) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  const bool plain = !value.empty() && value != "null" && value != "Null" && value != "NULL" && value[0] != '-' &&
                     value.find_first_not_of(safe) == std::string::npos;
  const bool negative = value.size() > 1 && value[0] == '-' &&
                        value.find_first_not_of("0123456789.e+-") == std::string::npos &&
                        value.find_first_of("0123456789") == 1;
  if (plain || negative) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string yaml_value(const OptionField& field) {
  if (field.get_maps) return field.get();
  if (!field.get_list) return yaml_scalar(field.get());
  std::vector<std::string> items = field.get_list();
  for (std::string& item : items) item = yaml_scalar(item);
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::vector<std::string> dump_items(const OptionItems& items) {
  std::vector<std::string> texts;
  for (std::size_t number = 1; number <= items.size(); ++number) {
    const OptionBinder item = items.bind(number);
    std::vector<std::string> values;
    for (const OptionField& field : item.fields()) {
      values.push_back(fmt::format("{}: {}", split_at_dots(field.key).back(), yaml_value(field)));
    }
    texts.push_back(fmt::format("{{{}}}", fmt::join(values, ", ")));
  }
  return texts;
}

std::string dump_maps(const std::vector<OptionMap>& maps) {
  std::vector<std::string> texts;
  for (const OptionMap& map : maps) {
    std::vector<std::string> values;
    for (const auto& [key, value] : map) values.push_back(fmt::format("{}: {}", yaml_scalar(key), yaml_scalar(value)));
    texts.push_back(fmt::format("{{{}}}", fmt::join(values, ", ")));
  }
  if (texts.empty()) return "{}";
  return texts.size() == 1 ? texts.front() : fmt::format("[{}]", fmt::join(texts, ", "));
}

std::vector<OptionMap> parse_maps(const std::string& text) {
  std::vector<OptionMap> maps;
  const std::string refusal =
      fmt::format("expected a map such as {{a: 1, b: 2}} or a list of maps, found '{}'", printable(text));
  if (!text.starts_with('{') && !text.starts_with('[')) throw UsageFailure(refusal);
  OptionBinder binder;
  binder.maps("value", maps, "");
  try {
    load_yaml(binder, "value: " + text, "");
  } catch (const ConfigError&) {
    throw UsageFailure(refusal);
  }
  return maps;
}

OptionPlaces load_yaml(const OptionBinder& binder, std::string_view yaml, std::string_view file_name) {
  if (yaml.size() > max_yaml_bytes) {
    throw ConfigError("", fmt::format("{} bytes, expected at most {}", yaml.size(), max_yaml_bytes),
                      std::string(file_name));
  }
  if (yaml.find('\0') != std::string_view::npos || !is_utf8(yaml)) {
    throw ConfigError("", "not UTF-8 YAML", std::string(file_name));
  }
  std::istringstream stream{std::string(yaml)};
  OptionReader reader(binder, file_name);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(reader);
    if (parser) throw ConfigError("", "expected one YAML document, found more", std::string(file_name));
  } catch (const YAML::Exception& error) {
    throw ConfigError("", printable(error.msg), std::string(file_name), error.mark.line + 1, error.mark.column + 1);
  }
  return std::move(reader).places();
}

std::string dump_yaml(const OptionBinder& binder) {
  std::string out;
  std::vector<std::string> open;  // sections of the previous line
  for (const OptionField& field : binder.fields()) {
    std::vector<std::string> parts = split_at_dots(field.key);
    const std::string name = parts.back();
    parts.pop_back();
    std::size_t common = 0;
    while (common < parts.size() && common < open.size() && parts[common] == open[common]) ++common;
    for (std::size_t depth = common; depth < parts.size(); ++depth) {
      out += std::string(2 * depth, ' ') + parts[depth] + ":\n";
    }
    open = parts;
    const std::string indent(2 * parts.size(), ' ');
    if (field.items && field.items->size() > 0) {
      out += fmt::format("{}{}:\n", indent, name);
      for (const std::string& item : dump_items(*field.items)) out += fmt::format("{}  - {}\n", indent, item);
    } else {
      out += fmt::format("{}{}: {}\n", indent, name, field.items ? "[]" : yaml_value(field));
    }
  }
  return out;
}

}  // namespace babelring
