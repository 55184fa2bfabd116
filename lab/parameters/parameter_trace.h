#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lab/lab_folder.h"
#include "lab/parameters/parameter_window.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

struct ParameterTraceOptions {
  std::int64_t window = 0;                 // updates; at least 1
  std::string run;                         // r_…
  std::int64_t heads = 1;                  // of each attention
  const Vocabulary* vocabulary = nullptr;  // null: subwords have no text. Outlives the trace
};

/// Counts in the optimizer which rows of the parameters change, and writes a window every so often (rank 0). Ranks that
/// share one copy of the weights count together; otherwise only rank 0 counts. Windows end at multiples of their
/// length; the last one of a run may be shorter, and so is the first after a resumption.
class ParameterTrace final : public UpdateObserver {
 public:
  ParameterTrace(ParameterTraceOptions options, LabFolder files)
      : options_(std::move(options)), files_(std::move(files)) {}

  OpObserver* begin(const UpdateStart& start) override;
  /// Throws Failure if a row was not counted in every update of the window.
  void end(const StepRecord& record) override;
  void finish() override;

 private:
  void write();

  ParameterTraceOptions options_;
  LabFolder files_;
  ModelReplica* replica_ = nullptr;
  std::optional<RowCounting> counting_;  // absent: this rank does not count
  std::int64_t first_update_ = 0, last_update_ = 0, updates_ = 0;
};

}  // namespace babelring
