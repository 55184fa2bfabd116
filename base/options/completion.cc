#include "base/options/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "base/options/options.h"
#include "base/options/usage.h"

namespace babelring {
namespace {

std::vector<std::string> shells() {
  return {"bash", "fish", "zsh"};
}

/// The completions that may follow one command.
struct Place {
  std::string path;                   // "nmt run list"
  std::vector<std::string> words;     // subcommands, options, and keys as "training.precision="
  std::vector<std::string> commands;  // subcommands only
  std::vector<std::pair<std::string, std::string>>
      arguments;  // option or key, and its allowed words; empty: a file or any text
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

/// The allowed words of a configuration key, separated by spaces.
std::string allowed_words(const OptionField& field) {
  if (field.type == "true/false") return "true false";
  if (field.type.find('|') == std::string::npos) return "";
  std::string words = field.type;
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

/// Adds the keys if the command takes `key=value` arguments.
void collect_keys(const CLI::App& app, const OptionBinder& keys, Place& place) {
  if (app.get_option_no_throw("overrides") == nullptr) return;
  for (const OptionField& field : keys.fields()) {
    place.words.push_back(field.key + '=');
    place.arguments.emplace_back(field.key + '=', allowed_words(field));
  }
}

void collect(const CLI::App& app, const OptionBinder& keys, const std::string& path, std::vector<Place>& places) {
  Place place{.path = path, .words = {}, .commands = {}, .arguments = {}};
  for (const CLI::App* command : app.get_subcommands(nullptr)) place.commands.push_back(command->get_name());
  place.words = place.commands;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      place.words.push_back("--" + name);
      if (option->get_items_expected_max() > 0) place.arguments.emplace_back("--" + name, allowed_words(*option));
    }
  }
  collect_keys(app, keys, place);
  places.push_back(place);
  for (const CLI::App* command : app.get_subcommands(nullptr))
    collect(*command, keys, path + ' ' + command->get_name(), places);
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

constexpr const char* bash_script = R"(# bash completion of {0}; load it with: source <({0} {2}completion bash)
_{0}_offers() {{
  local previous=$1 place word
  shift
{1}}}
_{0}_complete() {{
  local offers takes word current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  # bash makes three words of key=value and --option=value.
  if [[ $current == = ]]; then
    previous+='=' current=''
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}=
  fi
  if [[ $previous == -*= ]]; then previous=${{previous%=}}; fi
  _{0}_offers "$previous" "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"
  COMPREPLY=()
  for word in $offers; do
    # Options only where one is begun: elsewhere they would hide commands and files.
    if [[ $word == "$current"* && ($takes = yes || $word != -* || $current == -*) ]]; then COMPREPLY+=("$word"); fi
  done
  if [[ ${{COMPREPLY[*]}} == *= ]]; then compopt -o nospace 2>/dev/null || :; fi
}}
complete -o bashdefault -o default -F _{0}_complete {0}
)";

constexpr const char* zsh_script = R"(#compdef {0}
# zsh completion of {0}; load it with: source <({0} {2}completion zsh)
_{0}_offers() {{
  local previous=$1 place word
  shift
{1}}}
_{0}() {{
  local offers takes word current=${{words[CURRENT]}} previous=${{words[CURRENT-1]}}
  local -a fitting keys
  if [[ $current == *=* ]]; then
    previous=${{current%%=*}} current=${{current#*=}}
    [[ $previous == -* ]] || previous+='='
    compset -P '*='
  fi
  _{0}_offers "$previous" "${{(@)words[2,CURRENT-1]}}"
  for word in ${{=offers}}; do
    # Options only where one is begun: elsewhere they would hide commands and files.
    if [[ $word == *= ]]; then
      keys+=("$word")
    elif [[ $takes = yes || $word != -* || $current == -* ]]; then
      fitting+=("$word")
    fi
  done
  if (( ${{#keys}} )); then compadd -S '' -a keys; fi
  if (( ${{#fitting}} )); then compadd -a fitting; elif (( ! ${{#keys}} )); then _files; fi
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

/// The keys of a place, each with its allowed words: "tensorboard= tensorboard=true tensorboard=false".
std::string fish_keys(const Place& place) {
  std::vector<std::string> offers;
  for (const auto& [key, words] : place.arguments) {
    if (!key.ends_with('=')) continue;
    offers.push_back(key);
    std::istringstream stream(words);
    for (std::string word; stream >> word;) offers.push_back(key + word);
  }
  return fmt::format("{}", fmt::join(offers, " "));
}

/// The script for fish: one line per command and option, with the condition under which it applies.
std::string fish_script(const std::string& program, const std::string& dashes, const std::vector<Place>& places) {
  std::string known, lines, identifier = program;
  std::replace(identifier.begin(), identifier.end(), '-', '_');
  for (const Place& place : places) {
    known += fmt::format(" '{}'", place.path);
    const std::string here = fmt::format("complete -c {0} -n '__{1}_at \"{2}\"'", program, identifier, place.path);
    if (!place.commands.empty()) lines += fmt::format("{} -f -a '{}'\n", here, fmt::join(place.commands, " "));
    const std::string keys = fish_keys(place);
    if (!keys.empty()) lines += fmt::format("{} -a '{}'\n", here, keys);
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
  return fmt::format(R"(# fish completion of {0}; load it with: {0} {3}completion fish | source
set -g __{4}_places{1}
function __{4}_at
  set -l place {0}
  for word in (commandline -opc)[2..-1]
    contains -- "$place $word" $__{4}_places; and set place "$place $word"
  end
  test "$place" = $argv[1]
end
{2})",
                     program, known, lines, dashes, identifier);
}

}  // namespace

std::string completion_script(const CLI::App& app, const OptionBinder& keys, const std::string& shell) {
  std::vector<Place> places;
  collect(app, keys, app.get_name(), places);
  const std::string dashes = places.front().commands.empty() ? "--" : "";
  if (shell == "fish") return fish_script(app.get_name(), dashes, places);
  return fmt::format(fmt::runtime(shell == "zsh" ? zsh_script : bash_script), app.get_name(), tables(places), dashes);
}

void add_completion(CLI::App& app, const OptionBinder& keys) {
  CLI::App* command = app.add_subcommand("completion", "Prints a script that completes commands and options");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, fish or zsh")->required()->check(CLI::IsMember(shells()));
  command->callback([&app, &keys, shell] { std::cout << completion_script(app, keys, *shell); });
}

void add_completion_option(CLI::App& app, const OptionBinder& keys) {
  const std::vector<std::string> names = shells();
  const auto print = [&app, &keys, names](std::size_t index) {
    print_and_exit(completion_script(app, keys, names[index]));
  };
  add_word_option(app, "--completion", names, "", print, "print a script that completes the options and exit");
  app.get_option("--completion")->configurable(false);
}

}  // namespace babelring
