#include "nmt/comm/message_sums.h"

#include <bit>

#include "nmt/comm/mpi_ring.h"
#include "nmt/comm/mpi_tree.h"
#include "nmt/comm/tree_schedule.h"

namespace babelring {

bool MessageSums::by_tree(std::int64_t count) const {
  return order == AddOrder::tree || (may_choose_tree && tree_is_faster(place.ranks, count * 4));
}

bool MessageSums::same_bits_in_any_bucket() const {
  return wire == GradientWire::f32 && (place.ranks <= 2 || order == AddOrder::tree ||
                                       (may_choose_tree && std::has_single_bit(static_cast<unsigned>(place.ranks))));
}

std::int64_t MessageSums::bytes_to_send(std::int64_t count) const {
  if (by_tree(count)) return tree_elements_sent(place, count) * 4;
  return wire_bytes(wire, count) * 2 * (place.ranks - 1) / place.ranks;
}

std::unique_ptr<Collective> MessageSums::make(MpiProgress::World& world, std::int64_t sequence, float* data,
                                              float* errors, std::int64_t count) const {
  const int tag = static_cast<int>(sequence % 32768);  // MPI guarantees tags up to 32767
  if (by_tree(count)) return std::make_unique<MpiTree>(world.ring.get(), place, data, count, tag, world.pool);
  return std::make_unique<MpiRing>(world.ring.get(), place, data, errors, count, tag, wire, world.pool);
}

}  // namespace babelring
