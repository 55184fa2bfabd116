#include "server/launch/purge.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <vector>

#include "server/store/control.h"
#include "server/store/runs.h"

namespace babelring::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_checkpoints = 100'000;

void remove_checkpoints(store::Store& store, const store::RunToPurge& run, const RemoveCheckpoint& remove) {
  std::vector<store::CheckpointRow> checkpoints;
  {
    auto reader = store.reader(store::Store::For::own);
    checkpoints = store::list_checkpoints(*reader, run.number, false, {0, 0}, max_checkpoints);
  }
  for (const store::CheckpointRow& checkpoint : checkpoints) {
    try {
      remove(checkpoint);
    } catch (const std::exception& failure) {  // remove the run anyway
      spdlog::warn("run {}: checkpoint {} stays on disk: {}", run.id, checkpoint.name, failure.what());
    }
  }
  if (run.folder.empty()) return;
  std::error_code error;
  fs::remove_all(run.folder, error);
  if (error) spdlog::warn("run {}: {} cannot be removed: {}", run.id, run.folder, error.message());
}

}  // namespace

void purge_deleted_runs(store::Store& store, const RemoveCheckpoint& remove, const NotePurge& note,
                        std::int64_t now_ms) {
  std::vector<store::RunToPurge> doomed;
  {
    auto reader = store.reader(store::Store::For::own);
    doomed = store::runs_to_purge(*reader, now_ms - deleted_kept_ms);
  }
  for (const store::RunToPurge& run : doomed) {
    if (run.checkpoints_too) remove_checkpoints(store, run, remove);
    store.write([&](store::Database& database) {
      store::purge_run(database, run.number);
      note(database, run.id);
    });
    spdlog::info("run {}: purged", run.id);
  }
}

}  // namespace babelring::launch
