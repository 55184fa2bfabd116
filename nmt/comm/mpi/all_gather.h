#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/host_exchange.h"
#include "nmt/comm/mpi/handles.h"
#include "nmt/comm/schedule/ring_order.h"

namespace babelring {

/// All-gather of bytes in place, round a ring: every rank sends its parts to its right neighbour and passes on what it
/// receives from its left one, until each has the parts of all.
class MpiAllGather final : public Collective {
 public:
  /// `parts` are the bytes of each position in the ring. No message is longer than `segment_bytes`. `tag` must be
  /// unique among the collectives in flight on `comm`.
  MpiAllGather(MPI_Comm comm, const RingPlace& place, char* data, const PartsByPlace& parts, int tag,
               std::int64_t segment_bytes);

  void begin() override { post(); }
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t payload_bytes() const override { return 0; }
  int waiting_for() const override { return left_; }

  /// Bytes that the rank at `place` sends.
  static std::int64_t bytes_to_send(const RingPlace& place, const PartsByPlace& parts);

 private:
  using Segments = std::vector<ElementRange>;
  void post();
  static bool finish(std::deque<MpiRequest>& requests, std::size_t& done);

  MPI_Comm comm_;
  int left_, right_, tag_;
  char* data_;
  std::int64_t bytes_ = 0;  // of all parts
  Segments sends_, receives_;
  std::size_t own_ = 0;  // of the sends, those of this rank's parts; the others pass on what was received, in its order
  std::deque<MpiRequest> sending_, receiving_;
  std::size_t sends_posted_ = 0, receives_posted_ = 0, sends_done_ = 0, receives_done_ = 0;
};

}  // namespace babelring
