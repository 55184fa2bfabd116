#include "base/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

namespace babelring {
namespace {

/// The completions that may follow one command.
struct Place {
  std::string path;                   // "nmt run list"
  std::vector<std::string> words;     // subcommands and options
  std::vector<std::string> commands;  // subcommands only
  std::vector<std::pair<std::string, std::string>>
      arguments;  // option and its allowed words; empty: a file or any text
};

/// The allowed words of an option, taken from its CLI11 type name: "TEXT:{f32,bf16}".
std::string allowed_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  std::string words;
  for (const char c : type.substr(open + 1, close - open - 1)) words += c == ',' ? ' ' : c;
  return words.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_- ") == std::string::npos ? words : "";
}

void collect(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
  Place place{.path = path, .words = {}, .commands = {}, .arguments = {}};
  for (const CLI::App* command : app.get_subcommands(nullptr)) place.commands.push_back(command->get_name());
  place.words = place.commands;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      place.words.push_back("--" + name);
      if (option->get_items_expected_max() > 0) place.arguments.emplace_back("--" + name, allowed_words(*option));
    }
  }
  places.push_back(place);
  for (const CLI::App* command : app.get_subcommands(nullptr))
    collect(*command, path + ' ' + command->get_name(), places);
}

/// The body of a shell function for bash and zsh. Input: the word before the cursor ($previous) and all words before
/// the cursor ($@). Output: the completions ($offers), and whether they are values of an option ($takes).
std::string tables(const std::vector<Place>& places) {
  std::string descend, offers, values;
  for (const Place& place : places) {
    for (const std::string& command : place.commands)
      descend += fmt::format("      '{} {}') ;;\n", place.path, command);
    offers += fmt::format("    '{}') offers='{}' ;;\n", place.path, fmt::join(place.words, " "));
    for (const auto& [option, words] : place.arguments) {
      values += fmt::format("    '{} {}') takes=yes offers='{}' ;;\n", place.path, option, words);
    }
  }
  return fmt::format(R"(  place={0} takes=no offers=''
  for word in "$@"; do
    case "$place $word" in
{1}      *) continue ;;
    esac
    place="$place $word"
  done
  case "$place $previous" in
{2}  esac
  [ "$takes" = yes ] && return
  case "$place" in
{3}  esac
)",
                     places.front().path, descend, values, offers);
}

constexpr const char* bash_script = R"(# bash completion of {0}; load it with: source <({0} completion bash)
_{0}_offers() {{
  local previous=$1 place word
  shift
{1}}}
_{0}_complete() {{
  local offers takes word current=${{COMP_WORDS[COMP_CWORD]}}
  _{0}_offers "${{COMP_WORDS[COMP_CWORD-1]}}" "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"
  COMPREPLY=()
  for word in $offers; do
    # Options only where one is begun: elsewhere they would hide commands and files.
    if [[ $word == "$current"* && ($takes = yes || $word != -* || $current == -*) ]]; then COMPREPLY+=("$word"); fi
  done
}}
complete -o bashdefault -o default -F _{0}_complete {0}
)";

constexpr const char* zsh_script = R"(#compdef {0}
# zsh completion of {0}; load it with: source <({0} completion zsh)
_{0}_offers() {{
  local previous=$1 place word
  shift
{1}}}
_{0}() {{
  local offers takes word current=${{words[CURRENT]}}
  local -a fitting
  _{0}_offers "${{words[CURRENT-1]}}" "${{(@)words[2,CURRENT-1]}}"
  for word in ${{=offers}}; do
    # Options only where one is begun: elsewhere they would hide commands and files.
    if [[ $takes = yes || $word != -* || $current == -* ]]; then fitting+=("$word"); fi
  done
  if (( ${{#fitting}} )); then compadd -a fitting; else _files; fi
}}
if [[ $funcstack[1] = _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)";

/// Escapes a text for single quotes in fish.
std::string fish_text(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

/// The script for fish: one line per command and option, with the condition under which it applies.
std::string fish_script(const std::string& program, const std::vector<Place>& places) {
  std::string known, lines;
  for (const Place& place : places) {
    known += fmt::format(" '{}'", place.path);
    const std::string here = fmt::format("complete -c {0} -n '__{0}_at \"{1}\"'", program, place.path);
    if (!place.commands.empty()) lines += fmt::format("{} -f -a '{}'\n", here, fmt::join(place.commands, " "));
    for (const std::string& word : place.words) {
      if (!word.starts_with("--")) continue;
      const auto argument = std::find_if(place.arguments.begin(), place.arguments.end(),
                                         [&](const auto& option) { return option.first == word; });
      const std::string name = fish_text(word.substr(2));
      if (argument == place.arguments.end()) {
        lines += fmt::format("{} -l '{}'\n", here, name);
      } else if (argument->second.empty()) {
        lines += fmt::format("{} -l '{}' -r\n", here, name);
      } else {
        lines += fmt::format("{} -l '{}' -x -a '{}'\n", here, name, fish_text(argument->second));
      }
    }
  }
  return fmt::format(R"(# fish completion of {0}; load it with: {0} completion fish | source
set -g __{0}_places{1}
function __{0}_at
  set -l place {0}
  for word in (commandline -opc)[2..-1]
    contains -- "$place $word" $__{0}_places; and set place "$place $word"
  end
  test "$place" = $argv[1]
end
{2})",
                     program, known, lines);
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<Place> places;
  collect(app, app.get_name(), places);
  if (shell == "fish") return fish_script(app.get_name(), places);
  return fmt::format(fmt::runtime(shell == "zsh" ? zsh_script : bash_script), app.get_name(), tables(places));
}

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Prints a script that completes commands and options");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, fish or zsh")->required()->check(CLI::IsMember({"bash", "fish", "zsh"}));
  command->callback([&app, shell] { std::cout << completion_script(app, *shell); });
}

}  // namespace babelring
