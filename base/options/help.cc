#include "base/options/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace babelring
