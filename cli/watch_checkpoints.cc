#include "cli/watch_checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/work_folder.h"
#include "cli/runs/download.h"
#include "cli/runs/run_commands.h"
#include "client/api_client.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

FileDescriptor open_folder(const fs::path& folder) {
  return FileDescriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Removes a folder, also while another thread still writes files into it.
void remove_folder(const fs::path& folder) {
  std::error_code failure;
  for (int i = 0; i < 10 && fs::exists(folder, failure); ++i) fs::remove_all(folder, failure);
}

void remove_abandoned(const fs::path& parent, const std::string& prefix) {
  std::error_code unreadable;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent, unreadable)) {
    const bool named_alike = entry.path().filename().string().starts_with(prefix + "-");
    std::error_code ignored;
    if (named_alike && fs::exists(entry.path() / WorkFolder::marker_name, ignored)) found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    const FileDescriptor opened = open_folder(folder);
    if (flock(opened.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use, or somebody else's
    remove_folder(folder);
    if (!fs::exists(folder)) spdlog::info("removed {}, which a killed process left", folder.string());
  }
}

fs::path new_folder(const fs::path& parent, const std::string& prefix) {
  std::string name = parent / (prefix + "-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    fail("{}: cannot be created: {}", name, std::generic_category().message(errno));
  }
  return name;
}

}  // namespace

/// Makes and locks a folder, and then marks it as this program's: an unmarked one is never taken for abandoned. Where
/// the file system has no locks, the folder stays unlocked.
DownloadFolder::Locked DownloadFolder::make(const fs::path& parent, const std::string& prefix) {
  remove_abandoned(parent, prefix);
  for (;;) {
    fs::path folder = new_folder(parent, prefix);
    FileDescriptor opened = open_folder(folder);
    const bool taken = flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken || !fs::exists(folder)) continue;
    write_file_atomically(folder / WorkFolder::marker_name, "");  // from now on it may be taken for abandoned
    return {std::move(folder), std::move(opened)};
  }
}

DownloadFolder::DownloadFolder(const fs::path& parent, const std::string& prefix)
    : folder_(make(parent, prefix)), interrupt_([this](int signal) {
        remove_folder(path());
        kill(getpid(), signal);  // its handler is the default one again
      }) {}

DownloadFolder::~DownloadFolder() {
  remove_folder(path());
}

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
