#include "cli/runs/trace.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <thread>

#include "base/check_name.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/records/records.h"
#include "cli/runs/find_run.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/screen.h"
#include "cli/runs/text_format.h"
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
void wait_for_trace(ApiClient& api, const TraceDownload& request, const json::object& asked) {
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

json::object wait_for_file(ApiClient& api, const TraceDownload& request, const json::object& asked) {
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
  TraceDownload request;
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

TracedRun trace_run(ApiClient& api, const TraceDownload& request) {
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
  TraceDownload& request = arguments->request;
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

}  // namespace babelring
