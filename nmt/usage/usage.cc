#include "nmt/usage/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nmt/base/log.h"
#include "nmt/base/nearest.h"

namespace babelring {

namespace {

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands(nullptr)) names.push_back(subcommand->get_name());
  return names;
}

/// "--beam", "-h": as they are written.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string unknown(std::string_view kind, const std::string& found, const std::vector<std::string>& known) {
  return fmt::format("unknown {} '{}'{}", kind, printable(found), did_you_mean(found, known));
}

/// CLI11 writes the greatest of all numbers out, in 316 digits.
std::string without_endless_bound(const std::string& error) {
  const std::size_t at = error.find(" not in range 0.000000 to 1797693134862315");
  return at == std::string::npos ? error : error.substr(0, at) + " is too small";
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

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
  return without_endless_bound(error) + help();
}

}  // namespace babelring
