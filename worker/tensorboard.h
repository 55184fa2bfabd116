#pragma once

#include <filesystem>
#include <string>

#include "base/records/event_file.h"
#include "base/records/records.h"
#include "base/write_watch.h"

namespace babelring {

/// Writes the record stream as TensorBoard events: a scalar for each metric of a step or validation, and validation
/// samples as text. Used on rank 0. On a write error it logs one warning and stops writing; the run continues.
class TensorBoard : public RecordSink {
 public:
  /// Creates an event file in `folder`. The run continues after `update` (0: it begins), so later events in files of
  /// earlier attempts are discarded by TensorBoard, whose reader ignores the first start of a folder: every file has
  /// one. Throws Failure if the file cannot be created.
  TensorBoard(const std::filesystem::path& folder, const std::string& host, std::int64_t update);

  void write(RecordBody body) override;

 private:
  void put(std::int64_t update, const SummaryBytes& summary);

  EventFile file_;
  WriteWatch watch_;
  bool warned_ = false;
  std::int64_t update_ = 0;
};

}  // namespace babelring
