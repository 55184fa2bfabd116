#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/files.h"
#include "lab/op_place.h"
#include "lab/probe/probe_file.h"
#include "nmt/core/tensor.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// Records behind the content of a tensor.
struct Origin {
  std::set<std::int64_t> records;  // that wrote it, or that wrote what an op without a record made it from
  bool left_out = false;           // an op whose record was left out took part

  void add(const Origin& other);
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// Remembers the origin of each byte of memory. Follows strided tensors row by row.
class Writers {
 public:
  /// The tensor's bytes now have this origin.
  void wrote(const ConstTensor& tensor, Origin origin);
  /// Forgets the writers of memory for which keeps(address) is false.
  template <class Keeps>
  void forget_unless(Keeps keeps) {
    std::erase_if(pieces_, [&](const auto& piece) { return !keeps(static_cast<const void*>(piece.first)); });
  }
  /// The origins of the tensor's bytes together; nullopt if no op wrote any.
  std::optional<Origin> of(const ConstTensor& tensor) const;

 private:
  struct Piece {
    const std::byte* end;
    std::shared_ptr<const Origin> origin;
  };
  void cut(const std::byte* at);

  std::map<const std::byte*, Piece> pieces_;  // by first byte; do not overlap
};

/// The layers and tensors that a probe file stores.
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
