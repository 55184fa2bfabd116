#include "base/options/usage.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>

#include "base/failure.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/parse_number.h"

namespace babelring {

namespace {

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands(nullptr)) names.push_back(subcommand->get_name());
  return names;
}

/// The option's name with its dashes: "--beam", "-h".
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// Joins words as "a, b or c".
std::string alternatives(const std::vector<std::string>& words) {
  const std::vector<std::string> first(words.begin(), words.end() - 1);
  return first.empty() ? words.back() : fmt::format("{} or {}", fmt::join(first, ", "), words.back());
}

std::vector<std::string> allowed_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

/// Turns 5.000000 into 5: CLI11 formats bounds with std::to_string.
std::string plain_number(const std::string& number) {
  if (number.find('.') == std::string::npos) return number;
  const std::string trimmed = number.substr(0, number.find_last_not_of('0') + 1);
  return trimmed.ends_with('.') ? trimmed.substr(0, trimmed.size() - 1) : trimmed;
}

/// Rewrites CLI11's message about an option's value in this project's form: "--beam: found 0, expected 1 to 100".
std::string reworded(const std::string& error) {
  static const std::regex out_of_range(R"((.*): Value (.*) not in range (\S+) to (\S+))");
  static const std::regex not_in_set(R"((.*): (.*) not in \{(.+)\})");
  static const std::regex no_value(R"(Could not convert: (.*) = (.*))");
  std::smatch match;
  if (std::regex_match(error, match, out_of_range)) {
    const std::string range = match[4].length() < 100 ? plain_number(match[3]) + " to " + plain_number(match[4])
                                                      : fmt::format("a number of at least {}", plain_number(match[3]));
    return fmt::format("{}: found {}, expected {}", match[1].str(), printable(match[2].str()), range);
  }
  if (std::regex_match(error, match, not_in_set)) {
    const std::vector<std::string> allowed = allowed_words(match[3]);
    return fmt::format("{}: found '{}', expected {}{}", match[1].str(), printable(match[2].str()),
                       alternatives(allowed), did_you_mean(match[2].str(), allowed));
  }
  if (std::regex_match(error, match, no_value)) {
    return fmt::format("{}: found '{}', expected a number", match[1].str(), printable(match[2].str()));
  }
  return error;
}

/// For an unknown short option, suggests the only long option with the same first letter: "-v" suggests "--version".
std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  if (name.size() != 2) return did_you_mean(name, known);
  std::vector<std::string> fitting;
  std::copy_if(known.begin(), known.end(), std::back_inserter(fitting),
               [&](const std::string& option) { return option.starts_with("--" + name.substr(1)); });
  return fitting.size() == 1 ? "; did you mean '" + fitting.front() + "'?" : "";
}

std::string unknown(std::string_view kind, const std::string& found, const std::vector<std::string>& known) {
  return fmt::format("unknown {} '{}'{}", kind, printable(found), suggestion(found, known));
}

/// The range in a type name of CLI11, such as "INT:INT in [1 - 100]", as " from 1 to 100"; "" if it has none.
std::string range_of(const std::string& type) {
  static const std::regex range(R"(.* in \[(\S+) - (\S+)\].*)");
  std::smatch match;
  if (!std::regex_match(type, match, range)) {
    return type.starts_with("UINT") || type.find("NONNEGATIVE") != std::string::npos ? " of at least 0" : "";
  }
  return fmt::format(" from {} to {}", plain_number(match[1]), plain_number(match[2]));
}

/// Makes the option's values decimal: CLI11 by itself reads 010 as eight, 0x10 as sixteen, and takes nan into any
/// range.
void read_decimals(CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto read = [&]<class Number>(Number, const char* wanted) {
    const std::string expected = wanted + range_of(type);
    option.transform(CLI::Validator(
        [expected](std::string& text) {
          const auto number = parse_decimal<Number>(text);
          if (!number) return fmt::format("found '{}', expected {}", printable(text), expected);
          if constexpr (std::is_integral_v<Number>) text = std::to_string(*number);
          if (text.starts_with('+')) text.erase(0, 1);
          return std::string();
        },
        ""));
  };
  if (type.starts_with("INT")) read(std::int64_t{}, "an integer");
  if (type.starts_with("UINT")) read(std::uint64_t{}, "an integer");
  if (type.starts_with("FLOAT")) read(double{}, "a number");
}

void read_decimals(CLI::App& app) {
  for (CLI::Option* option : app.get_options(nullptr)) read_decimals(*option);
  for (CLI::App* command : app.get_subcommands(nullptr)) read_decimals(*command);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::filesystem::path> without_repeats(const std::vector<std::filesystem::path>& paths,
                                                   std::string_view option) {
  std::vector<std::filesystem::path> different;
  for (const std::filesystem::path& path : paths) {
    std::error_code absent;  // refused by who opens it
    const auto same = std::find_if(different.begin(), different.end(), [&](const std::filesystem::path& other) {
      return path == other || std::filesystem::equivalent(path, other, absent);
    });
    if (same == different.end()) {
      different.push_back(path);
    } else {
      spdlog::warn("{}: {} is {} again and counts once", option, printable(path.string()), printable(same->string()));
    }
  }
  return different;
}

std::string existing_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return printable(path) + " is a folder, expected a file";
  return std::filesystem::exists(path, ignored) ? "" : printable(path) + ": no such file";
}

std::string positive_number(const std::string& number) {
  const auto value = parse_decimal<double>(number);
  return value && *value > 0 ? "" : fmt::format("found {}, expected a number above 0", printable(number));
}

std::string folder_or_nothing(const std::string& path) {
  std::error_code ignored;
  const bool wrong = std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored);
  return wrong ? printable(path) + " is a file, expected a folder" : "";
}

bool parse_command_line(CLI::App& app, int argc, char** argv) {
  read_decimals(app);
  const auto refuse = [&](const CLI::Error& error) {
    throw UsageFailure(explain(app, {argv + 1, argv + argc}, error.what()));
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError&) {  // a command has printed why
    throw;
  } catch (const CLI::Success& answer) {
    const std::vector<std::string> unused = app.remaining(true);
    if (!unused.empty()) refuse(CLI::ExtrasError(app.get_name(), unused));
    app.exit(answer);
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(error);
  }
  return true;
}

std::string explain(const CLI::App& app, const std::vector<std::string>& arguments, const std::string& error) {
  const CLI::App* current = &app;
  std::string path = app.get_name();
  const auto help = [&] {
    const bool leads_on = !subcommand_names(*current).empty();
    return fmt::format(" (`{} --help` lists the {})", path, leads_on ? "commands" : "options");
  };
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::vector<std::string> commands = subcommand_names(*current);
    if (argument.size() > 1 && argument.front() == '-') {
      const std::string name = argument.substr(0, argument.find('='));
      const std::vector<std::string> known = option_names(*current);
      const bool number = argument.find_first_not_of("-.0123456789") == std::string::npos;
      if (!number && !contains(known, name)) return unknown("option", name, known) + help();
    } else if (!commands.empty()) {
      if (!contains(commands, argument)) return unknown("command", argument, commands) + help();
      current = current->get_subcommand(argument);
      path += ' ' + argument;
    }
  }
  const std::vector<std::string> commands = subcommand_names(*current);
  if (!commands.empty())
    return fmt::format("expected a command: {}", fmt::join(commands, ", ")) + (current == &app ? "" : help());
  return reworded(error) + help();
}

}  // namespace babelring
