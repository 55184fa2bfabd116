#include "base/options/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>

#include "base/options/options.h"
#include "base/options/usage.h"
#include "base/version.h"

namespace babelring {
namespace {

constexpr std::string_view examples_title = "Examples:\n";

/// Escapes a text for a line of roff: backslashes, the hyphen of options, and a control character at the beginning.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '~') {
      escaped += "\\(ti";
    } else if (c == '^') {
      escaped += "\\(ha";
    } else if (c == '`') {
      escaped += "\\(ga";
    } else if (c == '\'') {
      escaped += "\\(aq";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string entry(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, text.empty() ? "\\&" : roff(text));
}

/// The option with its value as --help shows it, names in bold: "\fB\-h\fR, \fB\-\-help\fR".
std::string option_term(const CLI::Option& option, const CLI::Formatter& form) {
  std::string names;
  const auto append = [&names](const std::string& name) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
  };
  for (const std::string& name : option.get_snames()) append("-" + name);
  for (const std::string& name : option.get_lnames()) append("--" + name);
  if (names.empty()) append(option.get_name(true));
  return names + roff(form.make_option_opts(&option));
}

/// The options of a program or command by group, as --help lists them.
std::string option_list(const CLI::App& app) {
  const auto form = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  std::string text;
  for (const std::string& group : app.get_groups()) {
    const auto options = app.get_options([&group](const CLI::Option* option) { return option->get_group() == group; });
    if (group.empty() || options.empty()) continue;
    if (group != "Options") text += fmt::format(".PP\n\\fI{}\\fR\n", roff(group));
    for (const CLI::Option* option : options) {
      text += entry(option_term(*option, *form), form->make_option_desc(option));
    }
  }
  return text;
}

std::string examples(const CLI::App& app) {
  const std::string footer = app.get_footer();
  if (!footer.starts_with(examples_title)) return "";
  std::string text = ".PP\nExamples:\n.PP\n.nf\n";
  std::string_view rest = std::string_view(footer).substr(examples_title.size());
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    text += roff(rest.substr(0, end)) + "\n";
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return text + ".fi\n";
}

/// A section for each command that has no commands below it.
std::string command_list(const CLI::App& app, const std::string& path) {
  std::string text;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    const std::string name = path + ' ' + command->get_name();
    if (command->get_subcommands(nullptr).empty()) {
      text += fmt::format(".SS {}\n{}\n{}{}", roff(name), roff(command->get_description()), option_list(*command),
                          examples(*command));
    } else {
      text += command_list(*command, name);
    }
  }
  return text;
}

std::string key_list(const OptionBinder& keys) {
  std::string text;
  for (const OptionField& field : keys.fields()) {
    const std::string value = field.get();
    const std::string preset = value.empty() ? "" : "; default: " + value;
    text += entry(fmt::format("\\fB{}\\fR ({}{})", roff(field.key), roff(field.type), roff(preset)), field.help);
    if (field.items) text += key_list(field.items->bind(0));
  }
  return text;
}

std::string synopsis(const CLI::App& app) {
  if (!app.get_subcommands(nullptr).empty()) return "\\fICOMMAND\\fR [\\fIOPTION\\fR ...]";
  std::string text = "[\\fIOPTION\\fR ...]";
  for (const CLI::Option* option : app.get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    text += fmt::format(" [\\fI{}\\fR ...]", roff(option->get_name(true)));
  }
  return text;
}

}  // namespace

std::string man_page(const CLI::App& app, const OptionBinder& keys) {
  const std::string& name = app.get_name();
  std::string title;
  for (const char c : name) title += c == '-' ? '-' : static_cast<char>(c - 'a' + 'A');
  std::string page = fmt::format(".TH {} 1 \"\" \"Babelring {}\" \"Babelring\"\n", roff(title), version);
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(app.get_description()));
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}\n", roff(name), synopsis(app));
  page += ".SH OPTIONS\n" + option_list(app);
  const std::string commands = command_list(app, name);
  if (!commands.empty()) page += ".SH COMMANDS\n" + commands;
  const std::string key_entries = key_list(keys);
  if (commands.empty() && !key_entries.empty()) page += ".SH CONFIGURATION KEYS\n" + key_entries;
  page += ".SH EXIT STATUS\n" + entry("0", "success") + entry("1", "failure, with one line on standard error") +
          entry("2", "wrong usage");
  page += ".SH SEE ALSO\n";
  for (const std::string other : {"nmt", "babelring-server", "babelring-worker"}) {
    if (!other.ends_with(name)) page += fmt::format(".BR {} (1)\n", roff(other));
  }
  return page;
}

void add_man_page_option(CLI::App& app, const OptionBinder& keys) {
  const auto print = [&app, &keys] { print_and_exit(man_page(app, keys)); };
  app.add_flag_callback("--man-page", print, "print the manual page (roff) and exit")->configurable(false);
}

}  // namespace babelring
