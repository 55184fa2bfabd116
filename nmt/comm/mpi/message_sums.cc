#include "nmt/comm/mpi/message_sums.h"

#include <bit>

#include "nmt/comm/mpi/ring.h"
#include "nmt/comm/mpi/tree.h"
#include "nmt/comm/schedule/tree_schedule.h"

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
  const int tag = tag_of(sequence);
  if (by_tree(count)) {
    return std::make_unique<MpiTree>(world.ring.get(), tree_steps(place, count), data, count, tag, world.pool);
  }
  return std::make_unique<MpiRing>(world.ring.get(), place, data, errors, count, tag, wire, world.pool);
}

/// Between a power of two of hosts, like all-reduces, so that both give the same bits.
bool MessageSums::scatters_by_tree() const {
  return std::has_single_bit(static_cast<unsigned>(place.ranks)) && by_tree(largest_sum);
}

int MessageSums::stripe_of(int position) const {
  return scatters_by_tree() ? tree_scattered_stripe(position, place.ranks)
                            : MpiRing::scattered_stripe(position, place.ranks);
}

std::int64_t MessageSums::bytes_to_scatter(std::int64_t count, std::int64_t stripe) const {
  if (scatters_by_tree()) return elements_sent(tree_scatter_steps(place, count, stripe)) * 4;
  const RingLayout layout{.count = count, .ranks = place.ranks, .stripe = stripe};
  return wire_bytes(wire, count - layout.chunk_count(stripe_of(place.position)));
}

std::unique_ptr<Collective> MessageSums::scatter(MpiProgress::World& world, std::int64_t sequence, float* data,
                                                 float* errors, std::int64_t count, std::int64_t stripe) const {
  const int tag = tag_of(sequence);
  if (scatters_by_tree()) {
    return std::make_unique<MpiTree>(world.ring.get(), tree_scatter_steps(place, count, stripe), data, count, tag,
                                     world.pool);
  }
  return std::make_unique<MpiRing>(world.ring.get(), place, data, errors, count, tag, wire, world.pool, stripe);
}

}  // namespace babelring
