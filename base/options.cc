#include "base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/nearest.h"
#include "base/parse_number.h"

namespace babelring {
namespace {

[[noreturn]] void expected(const std::string& what, const std::string& found) {
  throw UsageFailure(fmt::format("expected {}, found '{}'", what, printable(found)));
}

template <class Integer>
std::function<void(const std::string&)> integer_setter(Integer& member, Integer low, Integer high) {
  return [&member, low, high](const std::string& text) {
    const auto number = parse_number<Integer>(text);
    if (!number || *number < low || *number > high) {
      expected(fmt::format("an integer from {} to {}", low, high), text);
    }
    member = *number;
  };
}

void require_plain(const std::string& text) {
  if (printable(text) != text) expected("UTF-8 text without control characters", text);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  std::size_t begin = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
    items.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  items.push_back(text.substr(begin));
  return items;
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

void OptionBinder::add(OptionField field) {
  field.key = prefix_ + field.key;
  for (const OptionField& other : fields_) {
    if (other.key == field.key) fail("options: key '{}' is bound twice", field.key);
  }
  fields_.push_back(std::move(field));
}

void OptionBinder::number(const char* key, double& member, double low, double high, const char* help) {
  const auto set = [&member, low, high](const std::string& text) {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < low || *number > high) {
      expected(fmt::format("a number from {} to {}", low, high), text);
    }
    member = *number;
  };
  add({.key = key, .help = help, .type = "number", .get = [&member] { return fmt::format("{}", member); }, .set = set});
}

void OptionBinder::number_or(const char* key, double& member, double low, double high, const char* word, double meaning,
                             const char* help) {
  const auto set = [&member, low, high, word, meaning](const std::string& text) {
    const auto number = text == word ? std::optional(meaning) : parse_number<double>(text);
    if (!number || (text != word && (!std::isfinite(*number) || *number < low || *number > high))) {
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
    const auto number = text == word ? std::optional(meaning) : parse_number<std::int64_t>(text);
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
       .set = [set_list](const std::string& text) { set_list(split_at_commas(text)); },
       .get_list = [&member] { return member; },
       .set_list = set_list});
}

const OptionField* OptionBinder::find(std::string_view key) const {
  const auto at =
      std::find_if(fields_.begin(), fields_.end(), [&](const OptionField& field) { return field.key == key; });
  return at == fields_.end() ? nullptr : &*at;
}

std::vector<std::string> OptionBinder::keys() const {
  std::vector<std::string> names;
  for (const OptionField& field : fields_) names.push_back(field.key);
  return names;
}

void apply_override(const OptionBinder& binder, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw ConfigError("", fmt::format("override '{}': expected key=value", printable(assignment)));
  }
  const std::string_view key = assignment.substr(0, equals);
  const OptionField* field = binder.find(key);
  if (field == nullptr) {
    throw ConfigError(printable(key), fmt::format("override: unknown key '{}'{}", printable(key),
                                                  did_you_mean_key(key, binder.keys())));
  }
  try {
    field->set(std::string(assignment.substr(equals + 1)));
  } catch (const UsageFailure& failure) {
    throw ConfigError(field->key, fmt::format("override {}: {}", key, failure.what()));
  }
}

std::string describe(const OptionBinder& binder) {
  std::size_t key_width = 3, type_width = 4, default_width = 7;
  for (const OptionField& field : binder.fields()) {
    key_width = std::max(key_width, field.key.size());
    type_width = std::max(type_width, field.type.size());
    default_width = std::max(default_width, field.get().size());
  }
  const auto row = [&](const std::string& key, const std::string& type, const std::string& value,
                       const std::string& help) {
    return fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", key, key_width, type, type_width, value, default_width, help);
  };
  std::string table = row("key", "type", "default", "meaning");
  for (const OptionField& field : binder.fields()) table += row(field.key, field.type, field.get(), field.help);
  return table;
}

}  // namespace babelring
