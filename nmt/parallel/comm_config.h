#pragma once

#include <cstdint>
#include <string>

#include "base/options/options.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// The configuration keys communication.*.
struct CommConfig {
  static constexpr double automatic = 0;  // value of bucket_mb that means "auto"

  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
  GradientWire gradient_wire = GradientWire::f32;
  double bucket_mb = automatic;
  OptimizerPlacement optimizer = OptimizerPlacement::automatic;
  double deadline_s = 120;
  bool mixed_onednn = false;

  void bind(OptionBinder& binder);
  /// Throws ConfigError if `all_reduce` cannot send `gradient_wire` or scatter gradients for `optimizer`.
  void check() const;
  /// all_reduce as the word that the user writes: "auto", "nccl_ring", …
  std::string all_reduce_word() const;
  /// bucket_mb in bytes, with the constant for `auto`.
  std::int64_t wanted_bucket_bytes() const;
  /// Options for make_mpi_communicator(). NCCL needs an MPI communicator too, so `nccl` and `nccl_ring` become
  /// `automatic`.
  CommOptions options() const;
  /// Bucket size in bytes for a model with `gradient_bytes` bytes of f32 gradients. `by_nccl`: NCCL reduces them.
  /// `auto` for host memory is a constant, or measured where the size changes no bit. Collective.
  std::int64_t bucket_bytes(std::int64_t gradient_bytes, Communicator& communicator, bool by_nccl) const;
};

}  // namespace babelring
