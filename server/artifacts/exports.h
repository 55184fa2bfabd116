#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/names.h"
#include "server/store/checkpoints.h"
#include "server/store/store.h"

/// Checkpoints in the formats of other programs: files that the server makes by `nmt export` and may remove at any
/// time. They lie in DATA/exports/CHECKPOINT-ID.
namespace babelring::artifacts {

/// A format and its options, as `nmt export` has them.
struct ExportFormat {
  std::string format;        // huggingface, ctranslate2, argos, marian or bergamot
  std::string quantization;  // float32, bfloat16 or int8
  std::string from, into;    // of argos: codes of the languages, such as en

  /// The only quantization of a format; empty if there are several, or no such format.
  static std::string_view only_quantization(std::string_view format);
  /// "huggingface", "ctranslate2-int8", "argos-en_de-float32": its name among the exports of a checkpoint.
  std::string name() const;
  /// The format with that name; nothing if there is none.
  static std::optional<ExportFormat> named(std::string_view name);
};

enum class ExportState { waiting, running, complete, failed };

/// An export of a checkpoint. Folder and files are those of a complete one.
struct Export {
  std::string checkpoint;  // id
  ExportFormat format;
  ExportState state = ExportState::waiting;
  std::string detail;                    // one line, if it failed
  std::int64_t since_ms = 0;             // when that state began
  std::filesystem::path folder = {};     // where the files are; of argos the file is alone there
  std::vector<ManifestFile> files = {};  // named from the folder, sorted; without digests
};

struct ExportLimits {
  std::filesystem::path program;                         // `nmt`; empty: nothing can be exported
  std::int64_t memory_mb = 8192;                         // address space of the process; 0: no limit
  std::chrono::milliseconds deadline{30 * 60'000};       // of one export, from the start of its process
  std::size_t max_waiting = 8;                           // exports that wait while another is made
  std::size_t max_waiting_an_owner = 4;                  // of those, of one client
  std::size_t max_kept = 20;                             // complete exports; the oldest are removed
  std::uintmax_t spare_bytes = std::uintmax_t{1} << 30;  // disk space that an export must leave free
};

/// Makes exports one after the other, each in a new process. Thread-safe.
class Exports {
 public:
  /// Exports are kept below the store's folder. Deletes what a killed server left unfinished.
  Exports(const store::Store& store, ExportLimits limits);
  /// Ends the process. Exports that wait are dropped.
  ~Exports();
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  /// Begins an export of a checkpoint, whose folder is canonical, unless it is there, under way or waiting; one that
  /// failed begins anew. `held` is released when it has ended. `owner` identifies the client for limits. Throws Problem
  /// 503 no_exporter or busy, 507 disk_full.
  Export begin(const store::CheckpointRow& checkpoint, const ExportFormat& format, std::shared_ptr<const void> held,
               const std::string& owner);
  /// Nothing if there is no such export.
  std::optional<Export> find(const store::CheckpointRow& checkpoint, const ExportFormat& format) const;
  /// The ids of the checkpoints that have exports, sorted, and their exports' formats by name.
  std::map<std::string, std::map<std::string, ExportFormat>> formats() const;

 private:
  using Key = std::pair<std::string, std::string>;  // checkpoint's id, export's name
  /// An export that is not complete.
  struct Job {
    Export made;
    std::filesystem::path source;  // the checkpoint's folder
    std::filesystem::path output;  // the new folder, or of argos the new file
    std::shared_ptr<const void> held;
    std::string owner;
  };
  std::filesystem::path path_of(const store::CheckpointRow& checkpoint, const ExportFormat& format) const;
  void require_space(const store::CheckpointRow& checkpoint) const;
  /// find(). Requires mutex_.
  std::optional<Export> locate(const store::CheckpointRow& checkpoint, const ExportFormat& format) const;
  /// Requires mutex_. Throws Problem 503 unless another export of the owner may wait.
  void require_place(const std::string& owner) const;
  void serve();
  /// Runs the process. Returns why it failed; empty if it did not.
  std::string make(const Job& job);
  void remove_oldest() const;

  const std::filesystem::path folder_;
  const ExportLimits limits_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<Key, Job> jobs_;  // waiting, running and failed ones
  std::list<Key> queue_;
  bool ending_ = false;
  std::thread thread_;
};

/// Removes all exports of a checkpoint that is gone. Logs failures.
void remove_exports(const store::Store& store, const std::string& checkpoint);
/// Removes the exports of all checkpoints that were removed or are no longer in the store.
void remove_orphaned_exports(store::Store& store);

}  // namespace babelring::artifacts
