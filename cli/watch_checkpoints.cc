#include "cli/watch_checkpoints.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "base/json_get.h"
#include "base/log.h"
#include "cli/download_folder.h"
#include "cli/runs/download.h"
#include "cli/runs/find_run.h"
#include "client/problem.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds between_looks{2};
constexpr std::size_t max_listed = 100'000;

/// A path for a download, removed at the end.
class Download {
 public:
  Download(const fs::path& folder, std::int64_t update) : path_(folder / fmt::format("update-{:08}", update)) {}
  ~Download() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Objects that a watch uses for each checkpoint.
struct Watch {
  ApiClient& api;
  const std::string& run;
  const fs::path& downloads;
  const std::function<void(const fs::path& checkpoint)>& evaluate;
};

bool run_has_ended(ApiClient& api, const std::string& run) {
  const std::string state = get_text(api.get("/runs/" + run), "state");
  return state == "succeeded" || state == "failed" || state == "stopped";
}

std::set<std::int64_t> evaluated_updates(ApiClient& api, const std::string& run, const std::string& set) {
  std::set<std::int64_t> updates;
  for (const json::object& row : api.get_items("/runs/" + run + "/evals", max_listed)) {
    if (get_text(row, "set") == set) updates.insert(get_integer(row, "update"));
  }
  return updates;
}

/// The checkpoints that can be downloaded, oldest first.
std::vector<json::object> present_checkpoints(ApiClient& api, const std::string& run) {
  std::vector<json::object> found = api.get_items("/runs/" + run + "/checkpoints", max_listed);
  std::erase_if(found, [](const json::object& checkpoint) { return !get_flag(checkpoint, "complete"); });
  std::ranges::sort(found, {}, [](const json::object& checkpoint) { return get_integer(checkpoint, "update"); });
  return found;
}

/// Downloads and evaluates a checkpoint. Skips one that is gone.
void evaluate_downloaded(const Watch& watch, const json::object& checkpoint) {
  const std::int64_t update = get_integer(checkpoint, "update");
  const Download download(watch.downloads, update);
  try {
    download_checkpoint(watch.api, checkpoint, download.path());
  } catch (const ServerRefusal& refusal) {
    if (refusal.problem().status != 404 && refusal.problem().status != 410) throw;
    spdlog::warn("the checkpoint after update {} has been removed and is not evaluated", update);
    return;
  }
  watch.evaluate(download.path());
}

/// Waits until the server answers. Returns false if it does so at once: then it has no part in a failure.
bool wait_for_server(ApiClient& api, const std::string& failure) {
  bool waited = false;
  while (!api.http().send({.target = "/healthz"}).ok()) {
    if (!waited) spdlog::warn("{}; waiting for the server", printable(failure));
    waited = true;
    std::this_thread::sleep_for(between_looks);
  }
  return waited;
}

/// Evaluates the checkpoints that are not in `done`, and adds them. Returns whether the run has ended.
bool evaluate_new(const Watch& watch, std::set<std::int64_t>& done) {
  const bool ended = run_has_ended(watch.api, watch.run);  // asked first, so that its last checkpoint is listed
  for (const json::object& checkpoint : present_checkpoints(watch.api, watch.run)) {
    const std::int64_t update = get_integer(checkpoint, "update");
    if (done.contains(update)) continue;
    evaluate_downloaded(watch, checkpoint);
    done.insert(update);
  }
  return ended;
}

}  // namespace

void watch_checkpoints(const WatchedRun& watched, const std::function<void(const fs::path& checkpoint)>& evaluate) {
  ApiClient api(watched.access);
  const std::string run = get_text(find_run(api, watched.run), "id");
  const std::string set = watched.set_of(read_stored_config(get_text(api.get("/runs/" + run), "config"), "run " + run));
  std::set<std::int64_t> done = evaluated_updates(api, run, set);
  spdlog::info("watching run {}: {} evaluations on {} so far", run, done.size(), printable(set));
  const DownloadFolder downloads(fs::temp_directory_path(), "babelring-evaluate");
  for (;;) {
    try {
      if (evaluate_new({api, run, downloads.path(), evaluate}, done)) return;
      std::this_thread::sleep_for(between_looks);
    } catch (const ServerRefusal&) {
      throw;
    } catch (const Failure& failure) {
      if (!wait_for_server(api, failure.what())) throw;
      done.merge(evaluated_updates(api, run, set));  // an answer may have been lost
    }
  }
}

}  // namespace babelring
