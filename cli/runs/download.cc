#include "cli/runs/download.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/work_folder.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/screen.h"
#include "cli/runs/table.h"
#include "client/file_download.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t newest_traces = 20;  // a run makes no more of them while this command waits

void require_absent(const fs::path& file) {
  if (fs::exists(fs::symlink_status(file)))
    fail("{}: already exists; choose another file with --output", file.string());
}

/// Waits until the run has executed the request, or cannot any more.
void wait_for_trace(ApiClient& api, const TimelineRequest& request, const json::object& asked) {
  for (;;) {
    const json::object newest = api.get("/runs/" + request.run + "/trace");
    if (get_integer(newest, "attempt") != get_integer(asked, "attempt")) {
      fail("run {} began attempt {} before it was traced; request the trace again", request.run,
           get_integer(newest, "attempt"));
    }
    if (!get_flag(newest, "under_way")) return;
    std::this_thread::sleep_for(request.poll_interval);
  }
}

/// The artifact of the request, with its content.
std::optional<json::object> find_trace(ApiClient& api, const std::string& run, const json::object& asked) {
  for (const json::object& item : api.get_items("/runs/" + run + "/artifacts?kind=trace", newest_traces)) {
    if (get_integer(item, "attempt") != get_integer(asked, "attempt")) continue;
    json::object artifact = api.get("/artifacts/" + percent_encoded(text_of(item, "id")));
    const json::object* content = get_object(artifact, "content");
    if (content != nullptr && get_integer(*content, "request") == get_integer(asked, "number")) return artifact;
  }
  return std::nullopt;
}

json::object wait_for_file(ApiClient& api, const TimelineRequest& request, const json::object& asked) {
  const Stopwatch watch;
  for (;;) {
    if (auto artifact = find_trace(api, request.run, asked)) return *std::move(artifact);
    if (watch.elapsed_ms() > static_cast<double>(request.patience.count())) break;
    std::this_thread::sleep_for(request.poll_interval);
  }
  const std::string state = text_of(api.get("/runs/" + request.run), "state");
  fail("run {} is {} and its trace has not arrived; `nmt run logs {}` tells why", request.run, state, request.run);
}

/// The name of the artifact's file, for the current folder.
fs::path own_name(const json::object& artifact) {
  const std::string name = text_of(artifact, "name");
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    fail("artifact {} has no usable name; choose a file with --output", text_of(artifact, "id"));
  }
  return name;
}

struct TraceArguments {
  RunChoice chosen;
  TimelineRequest request;
};

void trace(TraceArguments& arguments) {
  ApiClient api(arguments.chosen.access());
  arguments.request.run = text_of(find_run(api, arguments.chosen.run), "id");
  const TracedRun traced = trace_run(api, arguments.request);
  const Screen screen = Screen::of_stdout();
  if (arguments.chosen.as_json) {
    screen.out << to_text(json::object{{"file", traced.file.string()}, {"artifact", traced.artifact}}) << '\n';
    return;
  }
  const std::int64_t first = get_integer(traced.artifact, "update");
  screen.out << fmt::format("{}: updates {} to {} of run {}, {}; open it with https://ui.perfetto.dev\n",
                            traced.file.string(), first, first + arguments.request.updates - 1, arguments.request.run,
                            bytes_text(get_number(traced.artifact, "bytes").value_or(0)));
}

}  // namespace

TracedRun trace_run(ApiClient& api, const TimelineRequest& request) {
  if (!request.output.empty()) require_absent(request.output);
  const json::object asked = api.send("POST", "/runs/" + request.run + "/trace",
                                      {{"updates", request.updates}, {"ops", request.ops}}, make_id('k'));
  wait_for_trace(api, request, asked);
  json::object artifact = wait_for_file(api, request, asked);
  const fs::path file = request.output.empty() ? own_name(artifact) : request.output;
  require_absent(file);
  const fs::path part = file.string() + ".part";
  fs::remove(part);
  download_file(api.http(),
                {.target = "/api/v1/artifacts/" + text_of(artifact, "id") + "/file",
                 .size = get_integer(artifact, "bytes"),
                 .sha256 = text_of(artifact, "sha256")},
                part);
  fs::rename(part, file);
  sync_folder(fs::absolute(file).parent_path());
  return {std::move(artifact), file};
}

void add_run_trace(CLI::App& run) {
  CLI::App* command = run.add_subcommand("trace", "Downloads a timeline of the next updates of a running run");
  const auto arguments = std::make_shared<TraceArguments>();
  TimelineRequest& request = arguments->request;
  command->add_option("--updates", request.updates, "number of updates that the timeline shows")
      ->check(CLI::Range(1, 20))
      ->capture_default_str();
  command
      ->add_option("--ops", request.ops,
                   "show each op; on a GPU this waits for the device after every op; false: only ranges of ops")
      ->check(CLI::IsMember({"true", "false"}))
      ->capture_default_str();
  command->add_option("--output", request.output, "file to create; default: trace-update-N.json.gz");
  arguments->chosen.declare(*command);
  command->callback([arguments] { trace(*arguments); });
}

namespace {

namespace fs = std::filesystem;
constexpr const char* sums_name = "SHA256SUMS";
constexpr const char* state_name = "state.json";

/// True if the name can only denote a file in the folder.
bool plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' && name.find('/') == std::string::npos &&
         printable(name) == name && name != sums_name;
}

std::vector<ManifestFile> manifest_of(const json::object& checkpoint) {
  std::vector<ManifestFile> files;
  bool whole = false;
  for (const json::value& entry : checkpoint.at("files").as_array()) {
    const json::object& file = entry.as_object();
    files.push_back({.name = std::string(std::string_view(file.at("name").as_string())),
                     .bytes = file.at("size").to_number<std::int64_t>(),
                     .sha256 = text_of(file, "sha256")});
    if (!plain_name(files.back().name)) {
      fail("checkpoint {}: its manifest has a file named '{}'", text_of(checkpoint, "id"),
           printable(files.back().name));
    }
    whole = whole || files.back().name == state_name;
  }
  if (!whole) fail("checkpoint {}: its manifest has no {}", text_of(checkpoint, "id"), state_name);
  return files;
}

/// Removes a trailing slash, which shells add on completion.
fs::path without_slash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Removes from the folder of an interrupted download what is no regular file of this checkpoint.
void remove_strangers(const WorkFolder& part, const std::vector<ManifestFile>& files) {
  std::set<std::string> names = {WorkFolder::marker_name};
  for (const ManifestFile& file : files) names.insert(file.name);
  std::vector<fs::path> strangers;
  for (const auto& entry : fs::directory_iterator(part.path())) {
    if (!entry.is_regular_file() || entry.is_symlink() || !names.contains(entry.path().filename().string())) {
      strangers.push_back(entry.path());
    }
  }
  for (const fs::path& stranger : strangers) fs::remove_all(stranger);
}

}  // namespace

json::object choose_checkpoint(ApiClient& api, const std::string& run, const CheckpointSelector& choice) {
  if (!choice.id.empty()) return api.get("/checkpoints/" + percent_encoded(choice.id));
  const std::vector<json::object> checkpoints = api.get_items("/runs/" + run + "/checkpoints", 10000);
  if (checkpoints.empty()) fail("run {} has no checkpoint yet", run);
  const auto best = std::find_if(checkpoints.begin(), checkpoints.end(),
                                 [](const json::object& checkpoint) { return get_flag(checkpoint, "best"); });
  const bool none_best = best == checkpoints.end();
  if (choice.best && none_best) fail("run {} has no best checkpoint; --latest takes the newest", run);
  return choice.latest || none_best ? checkpoints.front() : *best;  // the newest comes first
}

void download_checkpoint(ApiClient& api, const json::object& checkpoint, const fs::path& output,
                         const CheckpointProgress& progress) try {
  const fs::path folder = without_slash(fs::absolute(output));
  if (fs::exists(fs::symlink_status(folder)))
    fail("{}: already exists; choose another folder with --output", without_slash(output).string());
  const std::string id = text_of(checkpoint, "id");
  const std::vector<ManifestFile> files = manifest_of(checkpoint);
  std::int64_t total = 0, done = 0;
  for (const ManifestFile& file : files) total += file.bytes;
  WorkFolder part(folder.parent_path(), folder.filename().string(), "checkpoint " + id);
  part.keep();  // for the next call, if this one is interrupted
  remove_strangers(part, files);
  std::string sums;
  for (const ManifestFile& file : files) {
    const std::string target = "/api/v1/checkpoints/" + id + "/files/" + percent_encoded(file.name);
    download_file(api.http(), {.target = target, .size = file.bytes, .sha256 = file.sha256}, part / file.name,
                  [&](std::int64_t bytes) {
                    if (progress) progress(done + bytes, total);
                  });
    done += file.bytes;
    sums += fmt::format("{}  {}\n", file.sha256, file.name);
  }
  write_file_atomically(part / sums_name, sums);
  part.publish(folder);
} catch (const fs::filesystem_error& error) {
  fail("{}: {}", error.path1().string(), error.code().message());
}

namespace {

struct Arguments {
  ServerChoice server;
  std::string run;
  CheckpointSelector choice;
  fs::path output;
};

/// A progress bar on a terminal, updated at most ten times a second.
CheckpointProgress progress_bar(const Screen& screen) {
  if (!screen.live) return {};
  const auto started = std::make_shared<Stopwatch>();
  const auto drawn_ms = std::make_shared<double>(-1000);
  return [&screen, started, drawn_ms](std::int64_t bytes, std::int64_t total) {
    const double now = started->elapsed_ms();
    if (now - *drawn_ms < 100) return;
    *drawn_ms = now;
    const double fraction = total > 0 ? static_cast<double>(bytes) / static_cast<double>(total) : 1;
    screen.out << fmt::format("\r\x1b[K{:3.0f} %  {} of {}  {}/s", 100 * fraction,
                              bytes_text(static_cast<double>(bytes)), bytes_text(static_cast<double>(total)),
                              bytes_text(static_cast<double>(bytes) * 1000 / std::max(now, 1.0)))
               << std::flush;
  };
}

void download(const Arguments& arguments) {
  if (arguments.choice.best && arguments.choice.latest) throw UsageFailure("--best and --latest exclude each other");
  ApiClient api(arguments.server.access());
  CheckpointSelector choice = arguments.choice;
  std::string run;
  if (valid_id(arguments.run, 'c')) {
    choice.id = arguments.run;
  } else {
    run = text_of(find_run(api, arguments.run), "id");
  }
  const json::object checkpoint = choose_checkpoint(api, run, choice);
  if (!run.empty() && text_of(checkpoint, "run") != run) {
    fail("checkpoint {} is from run {}, not from {}", choice.id, text_of(checkpoint, "run"), run);
  }
  const fs::path folder = arguments.output.empty() ? fs::path(text_of(checkpoint, "name")) : arguments.output;
  if (folder.empty() || (arguments.output.empty() && !plain_name(folder.string()))) {
    fail("checkpoint {} has no usable name; choose a folder with --output", text_of(checkpoint, "id"));
  }
  const Screen screen = Screen::of_stdout();
  const bool as_json = arguments.server.as_json;
  download_checkpoint(api, checkpoint, folder, as_json ? CheckpointProgress() : progress_bar(screen));
  const double bytes = get_number(checkpoint, "bytes").value_or(0);
  if (as_json) {
    screen.out << to_text(json::object{{"folder", folder.string()}, {"checkpoint", checkpoint}}) << '\n';
  } else {
    screen.out << fmt::format("{}{}: checkpoint {} after update {}, {}, verified\n", screen.live ? "\r\x1b[K" : "",
                              folder.string(), text_of(checkpoint, "id"),
                              grouped_text(get_number(checkpoint, "update")), bytes_text(bytes));
  }
}

}  // namespace

void add_run_download(CLI::App& run) {
  CLI::App* command = run.add_subcommand("download", "Downloads a checkpoint into a folder for `nmt translate`");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("run", arguments->run, "id or name of a run, a unique prefix of either, or a checkpoint id")
      ->required();
  command->add_flag("--best", arguments->choice.best, "download the best checkpoint (default, if there is one)");
  command->add_flag("--latest", arguments->choice.latest, "download the newest checkpoint");
  command->add_option("--checkpoint", arguments->choice.id, "download the checkpoint with this id");
  command->add_option("--output", arguments->output, "folder to create; default: ./ and the checkpoint's name");
  arguments->server.declare(*command);
  command->callback([arguments] { download(*arguments); });
}

}  // namespace babelring
