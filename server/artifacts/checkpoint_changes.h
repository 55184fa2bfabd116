#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <vector>

#include "server/access/audit_log.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/downloads.h"
#include "server/store/checkpoints.h"

/// Changes of a checkpoint's row and folder, ordered so that a restarted server can finish an interrupted change.
namespace babelring::artifacts {

/// Objects that changes of checkpoints use. The references must outlive every change.
struct Context {
  store::Store& store;
  const Roots& roots;
  access::AuditLog& audit;
  const Downloads& downloads;
};

/// Removes an unprotected checkpoint and its exports. `begin` must write store::begin_removal() in a transaction; it
/// runs before any change on disk. Throws exceptions of `begin`, and Problem like folder_of() and remove_folder(); the
/// row is then unchanged.
void remove_checkpoint(const Context& context, const store::CheckpointRow& checkpoint,
                       const std::function<void()>& begin);

/// Removes a checkpoint on behalf of the run's retention, with the server as the actor. Writes an audit row when the
/// removal begins, and another one if it then fails.
void remove_by_retention(const Context& context, const store::CheckpointRow& checkpoint);

/// Sets or removes the mark `pinned` in a checkpoint's folder, then updates the row by `write`, which calls
/// store::set_pinned() in a transaction. Because of this order, an interruption keeps a file too many rather than
/// losing one. Throws exceptions of `write` after restoring the mark, and Problem like mark_pinned().
void change_pin(const std::filesystem::path& folder, bool pinned, const std::function<void()>& write);

/// Finishes changes that an earlier server process left unfinished. Must be constructed before the first request.
class UnfinishedChanges {
 public:
  explicit UnfinishedChanges(const Context& context);
  /// Finishes begun removals and updates rows to match the marks on disk, each with an audit row. Call once. Visits
  /// every checkpoint's folder, so it may take long; returns early when `stop` becomes true. Logs failures.
  void finish(const std::atomic<bool>& stop);

 private:
  void finish_removal(const store::CheckpointRow& checkpoint);
  void follow_mark(const store::CheckpointRow& checkpoint);

  const Context context_;
  std::vector<store::CheckpointRow> removals_, kept_;
};

}  // namespace babelring::artifacts
