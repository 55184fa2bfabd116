#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "lab/op_place.h"
#include "lab/probe/layer_filter.h"
#include "lab/probe/probe_file.h"
#include "lab/probe/writers.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

struct ProbeOptions {
  std::string layers = "all";  // for LayerFilter
  std::string tensors;         // globs of LAYER/OP/MEMBER whose whole tensors are stored; empty: none
};

/// Writes a probe file: every tensor that the ops of the observed updates write or update, and the weights before and
/// after. Call begin_update() and end_update() around each update; the recorder observes the ops in between. The file
/// becomes visible by finish().
class ProbeRecorder : public OpObserver {
 public:
  /// `header` is completed by the filters. `replica` must outlive the recorder. Throws UsageFailure if a filter matches
  /// nothing, Failure if the file cannot be written.
  ProbeRecorder(const std::filesystem::path& file, ProbeHeader header, const ProbeOptions& options,
                const ModelReplica& replica);

  void begin_update(std::int64_t update);
  /// Records weights and moments if the update was one of training.
  void end_update(bool training);
  /// Completes the file. Throws UsageFailure if `tensors` matched nothing.
  void finish();

  Watch watch() const override { return Watch::values; }
  void enter(const char* range) override;
  void leave() override;
  void ran(const OpRun& run) override;

 private:
  /// The inputs of an op.
  struct Inputs {
    Origin origin;
    bool batch = false;  // the batch is among them
  };
  /// A whole tensor that is stored.
  struct Stored {
    std::string name;
    Shape shape;
    DType dtype;
    std::vector<char> bytes;
  };

  ProbeRecord make_record(std::string_view layer, std::string_view op, std::string_view member,
                          const ConstTensor& tensor);
  void write(ProbeRecord record, const ConstTensor& tensor, const Inputs& inputs);
  void write_parameters(std::string_view op, std::string_view member, ProbeRole role, const Tensor& flat,
                        const std::map<std::size_t, Inputs>& inputs);
  Inputs inputs_of(const OpRun& run);
  Inputs inputs_of_sum(const Parameter& parameter) const;
  Inputs inputs_of_step(const Parameter& parameter) const;
  void copy_origins();
  bool lasts(const void* address) const;
  bool holds_whole_gradients() const;
  ConstTensor on_host(const ConstTensor& tensor);
  void write_tensors() const;

  std::filesystem::path path_;
  AtomicFile file_;
  const ModelReplica& replica_;
  const ParameterStore& store_;
  OpPlace place_;
  LayerFilter layers_;
  std::vector<std::string> tensor_globs_;
  std::vector<Stored> stored_;
  Writers writers_;
  std::map<std::string, int, std::less<>> occurrences_;  // of this update, by key without the occurrence
  Sha256 batch_;
  bool begun_ = false;      // the first update
  std::vector<char> host_;  // the tensor that on_host() copied last
  std::int64_t update_ = 0, records_ = 0;
};

}  // namespace babelring
