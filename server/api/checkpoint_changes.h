#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <vector>

#include "server/api/service.h"
#include "server/store/rows.h"

/// Changes of both a checkpoint's row and its folder, made so that a server which is killed in between can finish them.
namespace babelring::api {

/// Removes a checkpoint that nothing protects. `begin` writes store::begin_removal() in a transaction, before anything
/// on disk is touched. Throws what `begin` throws, and Problem as folder_of() and remove_folder() do; the row is then
/// as it was.
void remove_checkpoint(Service& service, const store::CheckpointRow& checkpoint, const std::function<void()>& begin);

/// The same for one that a run's retention does not want, as the server's own doing: its row in the audit comes with
/// the removal's beginning, and another where it fails afterwards.
void remove_by_retention(Service& service, const store::CheckpointRow& checkpoint);

/// Sets or removes the mark `pinned` in a checkpoint's folder, then the row by `write`, which is store::set_pinned() in
/// a transaction. In this order a failure between the two keeps a file too many and never one too few. Throws what
/// `write` throws, the mark being as it was, and Problem as mark_pinned() does.
void change_pin(const std::filesystem::path& folder, bool pinned, const std::function<void()>& write);

/// What a server that was killed may have left unfinished. Made before the first request is served.
class UnfinishedChanges {
 public:
  explicit UnfinishedChanges(Service& service);
  /// Once: finishes removals that were begun, and sets the rows to what the marks on disk say; each with its row in the
  /// audit. Takes as long as looking at every checkpoint; returns early when `stop` becomes true. Logs what fails.
  void finish(const std::atomic<bool>& stop);

 private:
  void finish_removal(const store::CheckpointRow& checkpoint);
  void follow_mark(const store::CheckpointRow& checkpoint);

  Service& service_;
  std::vector<store::CheckpointRow> removals_, kept_;
};

}  // namespace babelring::api
