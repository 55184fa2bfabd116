// Commands that change what the server keeps about runs, on the routes that the page uses.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "cli/runs/download.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {

json::object patch_run(ApiClient& api, const std::string& run, const json::object& patch) {
  const ApiClient::Tagged before = api.get_tagged("/runs/" + run);
  return api.send("PATCH", "/runs/" + run, patch, {},
                  {{"If-Match", before.tag}, {"Content-Type", "application/merge-patch+json"}});
}

json::object edit_patch(const RunEdit& edit) {
  json::object patch, labels;
  if (edit.name) patch["name"] = *edit.name;
  if (edit.note) patch["notes"] = *edit.note;
  if (edit.max_restarts) patch["max_restarts"] = *edit.max_restarts;
  const auto given = parse_labels(edit.labels);
  if (!given) throw UsageFailure("--label: " + given.error());
  labels = *given;
  for (const std::string& name : edit.removed_labels) {
    if (labels.contains(name)) {
      throw UsageFailure(fmt::format("--remove-label {0}: --label sets {0}, too", printable(name)));
    }
    labels[name] = nullptr;
  }
  if (!labels.empty()) patch["labels"] = std::move(labels);
  if (patch.empty()) {
    throw UsageFailure("expected at least one of --name, --label, --remove-label, --note and --max-restarts");
  }
  return patch;
}

namespace {

/// Runs that a command changes one after the other.
struct RunsChoice : ServerChoice {
  std::vector<std::string> runs;

  void declare(CLI::App& command) {
    command.add_option("runs", runs, "ids, names or unique prefixes of either")->required();
    ServerChoice::declare(command);
  }
  /// All of them, found before the first is changed.
  std::vector<json::object> find(ApiClient& api) const {
    std::vector<json::object> found;
    for (const std::string& run : runs) found.push_back(find_run(api, run));
    return found;
  }
};

void print_changed(const json::object& run, bool as_json, std::string_view done) {
  const Screen screen = Screen::of_stdout();
  if (as_json) {
    screen.out << to_text(run) << '\n';
  } else {
    screen.out << fmt::format("{} {} ({})\n", done, text_of(run, "id"), text_of(run, "name"));
  }
}

/// A member as one line, for a message.
std::string member_text(const json::object& run, std::string_view member) {
  const json::value* const value = run.if_contains(member);
  return value == nullptr ? "none" : printable(to_text(*value));
}

struct EditArguments {
  RunChoice chosen;
  RunEdit edit;
};

void edit_run(const EditArguments& arguments) {
  RunEdit changes = arguments.edit;
  if (changes.note == "-") changes.note = std::string(std::istreambuf_iterator<char>(std::cin), {});
  const json::object patch = edit_patch(changes);
  ApiClient api(arguments.chosen.access());
  const json::object before = find_run(api, arguments.chosen.run);
  const json::object after = patch_run(api, text_of(before, "id"), patch);
  print_changed(after, arguments.chosen.as_json, "changed");
  if (arguments.chosen.as_json) return;
  const Screen screen = Screen::of_stdout();
  for (const auto& [member, value] : patch) {
    const std::string old = member_text(before, member), now = member_text(after, member);
    screen.out << fmt::format("  {}: {}{}\n", std::string_view(member), now, old == now ? "" : ", before: " + old);
  }
}

struct DeleteArguments {
  RunsChoice chosen;
  std::string checkpoints = "keep";
  bool yes = false, undo = false;
};

/// Asks on a terminal. Throws UsageFailure where nobody can answer.
bool confirmed(const std::vector<json::object>& runs, bool with_checkpoints) {
  if (isatty(STDIN_FILENO) != 1) throw UsageFailure("--yes is required where standard input is not a terminal");
  std::string list;
  for (const json::object& run : runs) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", text_of(run, "id"), text_of(run, "name"));
  }
  std::cerr << fmt::format("Delete {}{}? They can be restored for 7 days. [y/N] ", list,
                           with_checkpoints ? " with all checkpoint files" : "");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void delete_runs(const DeleteArguments& arguments) {
  ApiClient api(arguments.chosen.access());
  const std::vector<json::object> runs = arguments.chosen.find(api);
  const bool with_checkpoints = arguments.checkpoints == "delete";
  if (!arguments.undo && !arguments.yes && !confirmed(runs, with_checkpoints)) {
    std::cerr << "nothing was deleted\n";
    throw CLI::RuntimeError(1);
  }
  for (const json::object& run : runs) {
    const std::string id = text_of(run, "id");
    if (arguments.undo) {
      print_changed(patch_run(api, id, {{"deleted", false}}), arguments.chosen.as_json, "restored");
      continue;
    }
    const std::string tag = api.get_tagged("/runs/" + id).tag;
    const std::string target = fmt::format("/runs/{}?checkpoints={}", id, arguments.checkpoints);
    print_changed(api.send("DELETE", target, {}, {}, {{"If-Match", tag}}), arguments.chosen.as_json, "deleted");
  }
  if (!arguments.undo && !arguments.chosen.as_json) {
    Screen::of_stdout().out << "within 7 days, `nmt run delete --undo` and the ids restore them\n";
  }
}

struct ArchiveArguments {
  RunsChoice chosen;
  bool undo = false;
};

void archive_runs(const ArchiveArguments& arguments) {
  ApiClient api(arguments.chosen.access());
  for (const json::object& run : arguments.chosen.find(api)) {
    const json::object after = patch_run(api, text_of(run, "id"), {{"archived", !arguments.undo}});
    print_changed(after, arguments.chosen.as_json, arguments.undo ? "took back from the archive" : "archived");
  }
}

struct PinArguments {
  RunChoice chosen;
  CheckpointSelector choice;
  bool undo = false;
};

void pin_checkpoint(const PinArguments& arguments) {
  if (arguments.choice.best && arguments.choice.latest) throw UsageFailure("--best and --latest exclude each other");
  ApiClient api(arguments.chosen.access());
  const std::string run = text_of(find_run(api, arguments.chosen.run), "id");
  const json::object chosen = choose_checkpoint(api, run, arguments.choice);
  const std::string id = text_of(chosen, "id");
  if (text_of(chosen, "run") != run) fail("checkpoint {} is from run {}, not from {}", id, text_of(chosen, "run"), run);
  api.send(arguments.undo ? "DELETE" : "PUT", "/checkpoints/" + id + "/pin", {});
  const Screen screen = Screen::of_stdout();
  if (arguments.chosen.as_json) {
    screen.out << to_text(api.get("/checkpoints/" + id)) << '\n';
  } else {
    screen.out << fmt::format("{} checkpoint {} after update {}\n", arguments.undo ? "unpinned" : "pinned", id,
                              grouped_text(get_number(chosen, "update")));
  }
}

}  // namespace

void add_run_edit(CLI::App& run) {
  CLI::App* command = run.add_subcommand("edit", "Changes the name, labels, notes or restarts of a run");
  const auto arguments = std::make_shared<EditArguments>();
  RunEdit& edit_options = arguments->edit;
  command->add_option("--name", edit_options.name, "new name");
  command->add_option("--label", edit_options.labels, "key=value to set; may be repeated")->allow_extra_args(false);
  command->add_option("--remove-label", edit_options.removed_labels, "key to remove; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--note", edit_options.note, "new notes, instead of the old ones; -: from standard input");
  command->add_option("--max-restarts", edit_options.max_restarts, "max restarts after faults")
      ->check(CLI::Range(0, 1000));
  arguments->chosen.declare(*command);
  command->callback([arguments] { edit_run(*arguments); });
}

void add_run_delete(CLI::App& run) {
  CLI::App* command = run.add_subcommand("delete", "Deletes runs that are over; for 7 days they can be restored");
  const auto arguments = std::make_shared<DeleteArguments>();
  command
      ->add_option("--checkpoints", arguments->checkpoints, "keep their checkpoint files, or delete them after 7 days")
      ->check(CLI::IsMember({"keep", "delete"}))
      ->capture_default_str();
  command->add_flag("--yes", arguments->yes, "do not ask");
  command->add_flag("--undo", arguments->undo, "restore deleted runs, given by their ids");
  arguments->chosen.declare(*command);
  command->callback([arguments] { delete_runs(*arguments); });
}

void add_run_archive(CLI::App& run) {
  CLI::App* command = run.add_subcommand("archive", "Takes runs from the usual list into the archive");
  const auto arguments = std::make_shared<ArchiveArguments>();
  command->add_flag("--undo", arguments->undo, "take them back");
  arguments->chosen.declare(*command);
  command->callback([arguments] { archive_runs(*arguments); });
}

void add_run_pin(CLI::App& run) {
  CLI::App* command = run.add_subcommand("pin", "Keeps a checkpoint of a run from every removal");
  const auto arguments = std::make_shared<PinArguments>();
  command->add_flag("--best", arguments->choice.best, "the best checkpoint (default, if there is one)");
  command->add_flag("--latest", arguments->choice.latest, "the newest checkpoint");
  command->add_option("--checkpoint", arguments->choice.id, "the checkpoint with this id");
  command->add_flag("--undo", arguments->undo, "unpin it");
  arguments->chosen.declare(*command);
  command->callback([arguments] { pin_checkpoint(*arguments); });
}

}  // namespace babelring
