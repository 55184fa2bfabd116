#include "base/options/usage.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

namespace babelring {
namespace {

/// The placeholder for an option's value in --help, for files, folders and other named values.
std::string metavariable(const CLI::Option& option) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 19> known = {{{"config", "FILE"},
                                                                                    {"input", "FILE"},
                                                                                    {"source", "FILE"},
                                                                                    {"reference", "FILE"},
                                                                                    {"output", "PATH"},
                                                                                    {"token-file", "FILE"},
                                                                                    {"ca-file", "FILE"},
                                                                                    {"profiles", "FILE"},
                                                                                    {"tls-cert", "FILE"},
                                                                                    {"tls-key", "FILE"},
                                                                                    {"checkpoint", "DIR"},
                                                                                    {"checkpoint-root", "DIR"},
                                                                                    {"data", "DIR"},
                                                                                    {"run-dir", "DIR"},
                                                                                    {"resume-from", "DIR"},
                                                                                    {"tensorboard", "DIR"},
                                                                                    {"server", "URL"},
                                                                                    {"listen", "HOST:PORT"},
                                                                                    {"label", "KEY=VALUE"}}};
  for (const std::string& name : option.get_lnames()) {
    const auto* found =
        std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == name; });
    if (found != known.end()) return std::string(found->second);
  }
  return "TEXT";
}

/// Parses a CLI11 type name such as "INT:INT in [1 - 100]" or "TEXT:{bpe,unigram}".
struct ValueType {
  explicit ValueType(const std::string& name) {
    const std::size_t colon = name.find(':');
    base = name.substr(0, colon);
    if (colon == std::string::npos) return;
    const std::string rest = name.substr(colon + 1);
    if (base == "TEXT" && (rest == "FILE" || rest == "DIR")) base = rest;
    const std::size_t open = rest.find_first_of("{["), close = rest.find_last_of("}]");
    if (open == std::string::npos || close == std::string::npos) return;
    const std::string inside = rest.substr(open + 1, close - open - 1);
    (rest[open] == '{' ? words : range) = inside;
  }
  bool number() const { return base == "INT" || base == "UINT" || base == "FLOAT"; }

  std::string base, words, range;  // words: "bpe,unigram"; range: "1 - 100"
};

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return is_positional || names.empty() ? option->get_name(true) : fmt::format("{}", fmt::join(names, ","));
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (!option->get_option_text().empty()) return " " + option->get_option_text();
    if (option->get_items_expected_max() == 0) return "";
    const ValueType type(option->get_type_name());
    std::string text = " ";
    if (!type.words.empty()) {
      text += type.words;
      std::replace(text.begin(), text.end(), ',', '|');
    } else if (type.number()) {
      text += 'N';
    } else {
      text += type.base == "TEXT" ? metavariable(*option) : type.base;
    }
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const ValueType type(option->get_type_name());
    const std::size_t dash = type.range.find(" - ");
    if (dash != std::string::npos) {
      text += fmt::format("; {} to {}", type.range.substr(0, dash), type.range.substr(dash + 3));
    }
    if (option->get_required()) text += " [required]";
    if (!option->get_default_str().empty()) text += fmt::format(" [default: {}]", option->get_default_str());
    return text;
  }
};

}  // namespace

void set_help_form(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help and exit");
}

std::string name_called(const char* argument_zero, std::string_view program) {
  const std::string_view called = argument_zero == nullptr ? "" : argument_zero;
  const std::string installed = fmt::format("babelring-{}", program);
  return called.substr(called.find_last_of('/') + 1) == installed ? installed : std::string(program);
}

void print_and_exit(std::string text) {
  text.pop_back();  // CLI::App::exit() appends a newline
  throw CLI::CallForVersion(std::move(text), 0);
}

void add_word_option(CLI::App& app, const std::string& name, const std::vector<std::string>& words,
                     const std::string& default_word, const std::function<void(std::size_t index)>& set,
                     const std::string& help) {
  const auto set_word = [words, set](const std::string& word) {
    set(static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin()));
  };
  app.add_option_function<std::string>(name, set_word, help)->check(CLI::IsMember(words))->default_str(default_word);
}

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
  static const std::regex out_of_range(R"((.*): Value (.*) not in range \[?(\S+) (?:to|-) ([^\s\]]+)\]?)");  // 2.1; 2.4
  static const std::regex not_in_set(R"((.*): (.*) not in \{(.+)\})");
  static const std::regex no_value(R"(Could not convert: (.*) = (.*))");
  std::smatch match;
  if (std::regex_match(error, match, out_of_range)) {
    // No upper bound is the largest double: 309 digits, in CLI11 2.4 "1.79769e+308".
    const std::string least = plain_number(match[3]), most = plain_number(match[4]);
    const bool bounded = most.length() < 100 && !most.ends_with("e+308");
    const std::string range = bounded ? least + " to " + most : fmt::format("a number of at least {}", least);
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
