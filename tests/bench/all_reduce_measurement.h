#pragma once

#include <cstdint>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// The sizes in bytes of a gradient and of the buckets that it is reduced in.
struct AllReduceCase {
  std::int64_t payload_bytes = 0, bucket_bytes = 0;
};

/// By size up to `largest_mb`, in one bucket, and the large ones cut into several.
std::vector<AllReduceCase> all_reduce_cases(double largest_mb);

/// The times of the slowest rank in each repeat, sorted, and the processor times of the process.
struct AllReduceTimes {
  std::vector<double> ms, processor_ms;
  double error = 0;  // largest difference from the serial sum in double, of all ranks
};

/// A gradient where the backend computes, and its sum over ranks as training takes it: in place where the communicator
/// takes the backend's memory, else by way of the communicator's own, when all of it is there.
class MeasuredGradient {
 public:
  /// Every rank asks for as many bytes. Backend and communicator outlive it.
  MeasuredGradient(Backend& backend, Communicator& communicator, std::int64_t max_bytes);

  /// Sums known values once, then `repeats` times zeros, which it times. All buckets are started before the first is
  /// waited for, as backward does it; for `compute_ms` it sleeps, as if it computed meanwhile (or before, where the
  /// gradient has to be copied first). On every rank.
  AllReduceTimes measure(const AllReduceCase& one, int repeats, double compute_ms);

  /// Whether it is copied.
  bool staged() const { return staged_; }

 private:
  double error_of(const AllReduceCase& one);
  void all_reduce(const AllReduceCase& one, double compute_ms);
  double largest(double value);

  Backend& backend_;
  Communicator& communicator_;
  bool staged_;
  Buffer summed_, computed_;  // the latter only if staged
  float* gradient_;           // where the backend computes
};

/// The GB that each rank sends in a second, by the definition of nccl-tests: payload / time * 2 (n-1)/n, to be held
/// against a link's rate in one direction.
double bus_gb_per_s(const AllReduceCase& one, double ms, int ranks);

}  // namespace babelring
