#pragma once

#include <filesystem>
#include <string>

#include "base/records.h"
#include "worker/event_file.h"

namespace babelring {

/// The record stream as TensorBoard shows it: a scalar for each number of a step or a validation, and the validations'
/// samples as text. Used on rank 0. A file that cannot be written ends the writing with one warning, never the run.
class TensorBoard : public RecordSink {
 public:
  /// A new event file in `folder`, which may have those of earlier attempts; what they have behind `update`, from
  /// which the run goes on, then no longer counts. Throws Failure if there can be no file.
  TensorBoard(const std::filesystem::path& folder, const std::string& host, std::int64_t update);

  void write(RecordBody body) override;

 private:
  void put(std::int64_t update, const SummaryBytes& summary);

  EventFile file_;
  bool warned_ = false;
  std::int64_t update_ = 0;
};

}  // namespace babelring
