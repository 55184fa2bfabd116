#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/options/help.h"
#include "cli/probe/probe_commands.h"

namespace babelring {

void add_colour(CLI::App& command, ProbeColour& colour) {
  add_choice(command, "--color", colour,
             {{"auto", ProbeColour::automatic}, {"always", ProbeColour::always}, {"never", ProbeColour::never}},
             "colours; auto: on a terminal");
}

void add_tolerance(CLI::App& command, std::string& tolerance) {
  command
      .add_option("--tolerance", tolerance,
                  "how far elements of close tensors may be apart: 0, or limits such as 4ulp,1e-5rel,1e-6abs, which "
                  "must all hold")
      ->capture_default_str();
}

Screen screen_of(ProbeColour colour) {
  Screen screen = Screen::of_stdout();
  if (colour != ProbeColour::automatic) screen.colour = colour == ProbeColour::always;
  return screen;
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

void add_probe(CLI::App& app) {
  CLI::App* probe = app.add_subcommand(
      "probe", "Records every tensor of an update, and finds where two such records begin to differ");
  probe->require_subcommand(1);
  add_probe_save(*probe);
  add_probe_print(*probe);
  add_probe_compare(*probe);
  add_probe_repeat(*probe);
  add_probe_weights(*probe);
  add_probe_backends(*probe);
}

}  // namespace babelring
