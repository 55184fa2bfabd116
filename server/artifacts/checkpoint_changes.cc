#include "server/artifacts/checkpoint_changes.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/failpoint.h"
#include "server/access/audited.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/exports.h"
#include "server/http/reply.h"
#include "server/store/checkpoints.h"

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;

void end_removal(store::Store& store, const std::string& id, bool removed) {
  try {
    store.write([&](store::Database& database) { store::end_removal(database, id, removed); });
  } catch (const std::exception& failure) {  // the removal is done; the next start updates the row
    spdlog::warn("checkpoint {}: removed, but its row is not updated: {}", id, failure.what());
  }
}

http::WriteNote note_of_removal(const store::CheckpointRow& checkpoint, int status) {
  return access::note_of_server("DELETE", "/api/v1/checkpoints/{checkpoint}", "/api/v1/checkpoints/" + checkpoint.id,
                                status);
}

}  // namespace

void remove_checkpoint(const Context& context, const store::CheckpointRow& checkpoint,
                       const std::function<void()>& begin) {
  const fs::path folder = folder_of(context.roots, checkpoint);
  const auto files = manifest_of(checkpoint);
  require_removable(folder, files);
  begin();
  failpoint("removal_begun");
  try {
    remove_folder(folder, files);
  } catch (const std::exception&) {
    end_removal(context.store, checkpoint.id, !fs::exists(folder));
    throw;
  }
  end_removal(context.store, checkpoint.id, true);
  remove_exports(context.store, checkpoint.id);
}

void remove_by_retention(const Context& context, const store::CheckpointRow& checkpoint) {
  bool begun = false;
  try {
    remove_checkpoint(context, checkpoint, [&] {
      context.store.write([&](store::Database& database) {
        store::begin_removal(database, checkpoint.id);
        context.audit.append(database, note_of_removal(checkpoint, 204));
      });
      begun = true;
    });
  } catch (const std::exception& failure) {
    const auto* problem = dynamic_cast<const http::Problem*>(&failure);
    if (begun) context.audit.record(note_of_removal(checkpoint, problem != nullptr ? problem->status() : 500), {});
    throw;
  }
}

void change_pin(const fs::path& folder, bool pinned, const std::function<void()>& write) {
  const bool before = is_marked(folder);
  mark_pinned(folder, pinned);
  failpoint("pin_marked");
  try {
    write();
  } catch (const std::exception&) {
    if (before != pinned) mark_pinned(folder, before);
    throw;
  }
}

UnfinishedChanges::UnfinishedChanges(const Context& context) : context_(context) {
  auto reader = context.store.reader();
  removals_ = store::begun_removals(*reader);
  kept_ = store::kept_checkpoints(*reader);
}

void UnfinishedChanges::finish(const std::atomic<bool>& stop) {
  const auto each = [&](const std::vector<store::CheckpointRow>& checkpoints, const auto& act) {
    for (const store::CheckpointRow& checkpoint : checkpoints) {
      if (stop) return;
      try {
        act(checkpoint);
      } catch (const std::exception& failure) {
        spdlog::warn("checkpoint {} of {}: {}", checkpoint.name, checkpoint.run, failure.what());
      }
    }
  };
  each(std::exchange(removals_, {}), [this](const auto& checkpoint) { finish_removal(checkpoint); });
  each(std::exchange(kept_, {}), [this](const auto& checkpoint) { follow_mark(checkpoint); });
}

void UnfinishedChanges::finish_removal(const store::CheckpointRow& begun) {
  store::CheckpointRow checkpoint = begun;
  checkpoint.removed = false;  // so that folder_of() accepts it
  bool removed = true;
  try {
    const fs::path folder = folder_of(context_.roots, checkpoint);
    removed = !is_marked(folder);  // unless pinned by hand since
    if (removed) remove_folder(folder, manifest_of(checkpoint));
  } catch (const http::Problem& problem) {
    if (problem.code() == "not_writable") throw;  // the next start tries again
    if (problem.code() == "gone") sweep_removed(context_.roots, checkpoint);
    if (problem.code() != "gone") spdlog::warn("checkpoint {}: {}", checkpoint.id, problem.what());
  }
  context_.store.write([&](store::Database& database) {
    store::end_removal(database, checkpoint.id, removed);
    // The audit row of the removal was written when it began.
    if (!removed) context_.audit.append(database, note_of_removal(checkpoint, 409));
  });
  spdlog::info("checkpoint {} of {}: finished an interrupted removal", checkpoint.name, checkpoint.run);
}

void UnfinishedChanges::follow_mark(const store::CheckpointRow& checkpoint) {
  std::error_code error;
  if (checkpoint.pinned == is_marked(checkpoint.folder) || !fs::exists(checkpoint.folder, error)) return;
  const fs::path folder = folder_of(context_.roots, checkpoint);
  context_.store.write([&](store::Database& database) {
    const bool pinned = is_marked(folder);  // read within the transaction, since a request may be changing it
    if (store::set_pinned(database, checkpoint.id, pinned)) {
      context_.audit.append(database,
                            access::note_of_server(pinned ? "PUT" : "DELETE", "/api/v1/checkpoints/{checkpoint}/pin",
                                                   "/api/v1/checkpoints/" + checkpoint.id + "/pin", 204));
    }
  });
}

}  // namespace babelring::artifacts
