#include "base/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

[[noreturn]] void expected(const std::string& what, const std::string& found) {
  throw UsageFailure(fmt::format("expected {}, found '{}'", what, printable(found)));
}

template <class Integer>
std::function<void(const std::string&)> integer_setter(Integer& member, Integer low, Integer high) {
  return [&member, low, high](const std::string& text) {
    const auto number = parse_decimal<Integer>(text);
    if (!number || *number < low || *number > high) {
      expected(fmt::format("an integer from {} to {}", low, high), text);
    }
    member = *number;
  };
}

void require_plain(const std::string& text) {
  if (printable(text) != text) expected("UTF-8 text without control characters", text);
}

/// The items of "a,b" or, as YAML writes lists, "[a, b]". Throws UsageFailure if the closing bracket is missing.
std::vector<std::string> split_list(const std::string& text) {
  const bool in_brackets = text.starts_with('[');
  if (in_brackets && !text.ends_with(']')) expected("a list such as a,b or [a, b]", text);
  const std::string inside = in_brackets ? text.substr(1, text.size() - 2) : text;
  std::vector<std::string> items;
  const auto add = [&](std::size_t begin, std::size_t end) {
    while (in_brackets && begin < end && inside[begin] == ' ') ++begin;
    while (in_brackets && begin < end && inside[end - 1] == ' ') --end;
    items.push_back(inside.substr(begin, end - begin));
  };
  if (inside.empty()) return items;
  std::size_t begin = 0;
  for (std::size_t comma = inside.find(','); comma != std::string::npos; comma = inside.find(',', begin)) {
    add(begin, comma);
    begin = comma + 1;
  }
  add(begin, inside.size());
  return items;
}

/// The number that `key` gives of an item of `field`, such as "2" in nodes.2.alpha; nothing if it is no key of an item.
std::optional<std::string_view> item_number(const OptionField& field, std::string_view key) {
  if (!field.items || !key.starts_with(field.key + '.')) return std::nullopt;
  key.remove_prefix(field.key.size() + 1);
  return key.substr(0, key.find('.'));
}

/// The item of that number, or nothing if it is not there.
std::optional<OptionBinder> find_item(const OptionItems& items, std::string_view number) {
  const auto parsed = parse_number<std::size_t>(number);
  if (!parsed || *parsed < 1 || *parsed > items.size()) return std::nullopt;
  return items.bind(*parsed);
}

/// The reason why `key` names an item that is not there, or "".
std::string missing_item(const OptionBinder& binder, std::string_view key) {
  for (const OptionField& field : binder.fields()) {
    const auto number = item_number(field, key);
    if (!number || find_item(*field.items, *number)) continue;
    if (field.items->size() == 0) return fmt::format("{} has no items", field.key);
    return fmt::format("expected an item of {} from 1 to {}, found '{}'", field.key, field.items->size(),
                       printable(*number));
  }
  return "";
}

/// The fields, and after items those of a default item.
std::vector<OptionField> fields_to_describe(const OptionBinder& binder) {
  std::vector<OptionField> fields;
  for (const OptionField& field : binder.fields()) {
    fields.push_back(field);
    if (!field.items) continue;
    const OptionBinder example = field.items->bind(0);
    fields.insert(fields.end(), example.fields().begin(), example.fields().end());
  }
  return fields;
}

std::string place_and_detail(const std::string& file, int line, int column, const std::string& detail) {
  if (line > 0) return fmt::format("{}:{}:{}: {}", file, line, column, detail);
  return file.empty() ? detail : fmt::format("{}: {}", file, detail);
}

}  // namespace

ConfigError::ConfigError(std::string of_key, std::string what, std::string in_file, int at_line, int at_column)
    : UsageFailure(place_and_detail(in_file, at_line, at_column, what)),
      file(std::move(in_file)),
      line(at_line),
      column(at_column),
      key(std::move(of_key)),
      detail(std::move(what)) {}

ConfigError with_place(const ConfigError& error, const OptionPlaces& places, const std::string& file_name) {
  std::string key = error.key;
  while (!places.contains(key)) {
    const std::size_t dot = key.find_last_of('.');
    if (dot == std::string::npos) return error;
    key.resize(dot);
  }
  const TextPosition& place = places.at(key);
  return {error.key, error.detail, file_name, place.line, place.column};
}

void OptionBinder::add(OptionField field) {
  field.key = prefix_ + field.key;
  for (const OptionField& other : fields_) {
    if (other.key == field.key) fail("options: key '{}' is bound twice", field.key);
  }
  fields_.push_back(std::move(field));
}

void OptionBinder::number(const char* key, double& member, double low, double high, const char* help) {
  const auto set = [&member, low, high](const std::string& text) {
    const auto number = parse_decimal<double>(text);
    if (!number || *number < low || *number > high) {
      expected(fmt::format("a number from {} to {}", low, high), text);
    }
    member = *number;
  };
  add({.key = key, .help = help, .type = "number", .get = [&member] { return fmt::format("{}", member); }, .set = set});
}

void OptionBinder::number_or(const char* key, double& member, double low, double high, const char* word, double meaning,
                             const char* help) {
  const auto set = [&member, low, high, word, meaning](const std::string& text) {
    const auto number = text == word ? std::optional(meaning) : parse_decimal<double>(text);
    if (!number || (text != word && (*number < low || *number > high))) {
      expected(fmt::format("a number from {} to {} or {}", low, high, word), text);
    }
    member = *number;
  };
  add({.key = key,
       .help = help,
       .type = fmt::format("number or {}", word),
       .get = [&member, word, meaning] { return member == meaning ? word : fmt::format("{}", member); },
       .set = set});
}

void OptionBinder::integer(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high,
                           const char* help) {
  add({.key = key,
       .help = help,
       .type = "integer",
       .get = [&member] { return std::to_string(member); },
       .set = integer_setter(member, low, high)});
}

void OptionBinder::integer(const char* key, int& member, int low, int high, const char* help) {
  add({.key = key,
       .help = help,
       .type = "integer",
       .get = [&member] { return std::to_string(member); },
       .set = integer_setter(member, low, high)});
}

void OptionBinder::integer_or(const char* key, std::int64_t& member, std::int64_t low, std::int64_t high,
                              const char* word, std::int64_t meaning, const char* help) {
  const auto set = [&member, low, high, word, meaning](const std::string& text) {
    const auto number = text == word ? std::optional(meaning) : parse_decimal<std::int64_t>(text);
    if (!number || (text != word && (*number < low || *number > high))) {
      expected(fmt::format("an integer from {} to {} or {}", low, high, word), text);
    }
    member = *number;
  };
  add({.key = key,
       .help = help,
       .type = fmt::format("integer or {}", word),
       .get = [&member, word, meaning] { return member == meaning ? word : std::to_string(member); },
       .set = set});
}

void OptionBinder::flag(const char* key, bool& member, const char* help) {
  const auto set = [&member](const std::string& text) {
    if (text != "true" && text != "false") expected("true or false", text);
    member = text == "true";
  };
  add({.key = key,
       .help = help,
       .type = "true/false",
       .get = [&member] { return member ? "true" : "false"; },
       .set = set});
}

void OptionBinder::text(const char* key, std::string& member, const char* help) {
  const auto set = [&member](const std::string& text) {
    require_plain(text);
    member = text;
  };
  add({.key = key, .help = help, .type = "text", .get = [&member] { return member; }, .set = set});
}

void OptionBinder::choice(const char* key, std::string& member, const std::vector<std::string>& allowed,
                          const char* help) {
  add_choice(
      key, allowed, [&member] { return member; }, [&member, allowed](std::size_t index) { member = allowed[index]; },
      help);
}

void OptionBinder::add_choice(const char* key, std::vector<std::string> words, std::function<std::string()> get,
                              std::function<void(std::size_t index)> set, const char* help) {
  const std::string type = fmt::format("{}", fmt::join(words, "|"));
  const auto set_word = [words = std::move(words), type, set = std::move(set)](const std::string& text) {
    const auto at = std::find(words.begin(), words.end(), text);
    if (at == words.end()) {
      throw UsageFailure(fmt::format("expected {}, found '{}'{}", type, printable(text), did_you_mean(text, words)));
    }
    set(static_cast<std::size_t>(at - words.begin()));
  };
  add({.key = key, .help = help, .type = type, .get = std::move(get), .set = set_word});
}

void OptionBinder::list(const char* key, std::vector<std::string>& member, const char* help) {
  const auto set_list = [&member](const std::vector<std::string>& items) {
    for (const std::string& item : items) require_plain(item);
    member = items;
  };
  add({.key = key,
       .help = help,
       .type = "list",
       .get = [&member] { return fmt::format("{}", fmt::join(member, ",")); },
       .set = [set_list](const std::string& text) { set_list(split_list(text)); },
       .get_list = [&member] { return member; },
       .set_list = set_list});
}

void OptionBinder::maps(const char* key, std::vector<OptionMap>& member, const char* help) {
  const auto set_maps = [&member](const std::vector<OptionMap>& maps) {
    for (const OptionMap& map : maps) {
      for (auto entry = map.begin(); entry != map.end(); ++entry) {
        require_plain(entry->first);
        require_plain(entry->second);
        const auto same = [&](const auto& other) { return other.first == entry->first; };
        if (std::find_if(map.begin(), entry, same) != entry) expected("each key once", entry->first);
      }
    }
    member = maps;
  };
  add({.key = key,
       .help = help,
       .type = "map or maps",
       .get = [&member] { return dump_maps(member); },
       .set = [set_maps](const std::string& text) { set_maps(parse_maps(text)); },
       .get_maps = [&member] { return member; },
       .set_maps = set_maps});
}

void OptionBinder::add_items(const char* key, OptionItems items, const char* help) {
  const std::string path = prefix_ + key;
  const OptionBinder example = items.bind(0);
  for (const OptionField& field : example.fields()) {
    if (field.items || field.key.find('.', path.size() + 3) != std::string::npos) {
      fail("options: key '{}' of an item is nested", field.key);
    }
  }
  const auto shared = std::make_shared<const OptionItems>(std::move(items));
  const auto refuse = [path](const std::string& text) {
    expected(fmt::format("the keys of one item ({}.1.KEY=VALUE)", path), text);
  };
  add({.key = key,
       .help = help,
       .type = "list of keys",
       .get = [shared] { return fmt::format("[{}]", fmt::join(dump_items(*shared), ", ")); },
       .set = refuse,
       .items = shared});
}

std::optional<OptionField> OptionBinder::find(std::string_view key) const {
  for (const OptionField& field : fields_) {
    if (field.key == key) return field;
    const auto number = item_number(field, key);
    const auto item = number ? find_item(*field.items, *number) : std::nullopt;
    if (item) return item->find(key);
  }
  return std::nullopt;
}

std::vector<std::string> OptionBinder::keys() const {
  std::vector<std::string> names;
  for (const OptionField& field : fields_) {
    names.push_back(field.key);
    for (std::size_t number = 1; field.items && number <= field.items->size(); ++number) {
      for (std::string& name : field.items->bind(number).keys()) names.push_back(std::move(name));
    }
  }
  return names;
}

void apply_override(const OptionBinder& binder, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw ConfigError("", fmt::format("override '{}': expected key=value", printable(assignment)));
  }
  const std::string_view key = assignment.substr(0, equals);
  const std::optional<OptionField> field = binder.find(key);
  if (!field) {
    const std::string missing = missing_item(binder, key);
    throw ConfigError(printable(key), !missing.empty() ? fmt::format("override {}: {}", printable(key), missing)
                                                       : fmt::format("override: unknown key '{}'{}", printable(key),
                                                                     did_you_mean_key(key, binder.keys())));
  }
  try {
    field->set(std::string(assignment.substr(equals + 1)));
  } catch (const UsageFailure& failure) {
    throw ConfigError(field->key, fmt::format("override {}: {}", key, failure.what()));
  }
}

std::string describe(const OptionBinder& binder) {
  const std::vector<OptionField> fields = fields_to_describe(binder);
  std::size_t key_width = 3, type_width = 4, default_width = 7;
  for (const OptionField& field : fields) {
    key_width = std::max(key_width, field.key.size());
    type_width = std::max(type_width, field.type.size());
    default_width = std::max(default_width, field.get().size());
  }
  const auto row = [&](const std::string& key, const std::string& type, const std::string& value,
                       const std::string& help) {
    return fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", key, key_width, type, type_width, value, default_width, help);
  };
  std::string table = row("key", "type", "default", "meaning");
  for (const OptionField& field : fields) table += row(field.key, field.type, field.get(), field.help);
  return table;
}

}  // namespace babelring
