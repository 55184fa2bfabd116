#pragma once

#include <cstdint>
#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/progress.h"
#include "nmt/comm/schedule/ring_order.h"

namespace babelring {

/// How ranks or hosts are summed by messages: round a ring or by a tree.
struct MessageSums {
  static constexpr std::int64_t largest_sum = std::int64_t{1} << 40;  // elements

  RingPlace place;
  GradientWire wire = GradientWire::f32;
  AddOrder order = AddOrder::any;
  bool may_choose_tree = false;  // where it is faster

  /// True if a sum of `count` elements is taken by a tree.
  bool by_tree(std::int64_t count) const;
  /// True if an element's bits do not depend on which elements are summed together with it.
  bool same_bits_in_any_bucket() const;
  /// True if large sums are taken in parts.
  bool in_parts() const { return by_tree(largest_sum) && same_bits_in_any_bucket(); }
  /// Bytes that this rank sends for a sum of `count` elements.
  std::int64_t bytes_to_send(std::int64_t count) const;
  /// The stripe whose sums the rank at `position` gets from scatter().
  int stripe_of(int position) const;
  /// Bytes that this rank sends for a reduce-scatter of `count` elements in stripes of `stripe`.
  std::int64_t bytes_to_scatter(std::int64_t count, std::int64_t stripe) const;
  /// The reduce-scatter of `count` elements at `data`, at most one stripe of `stripe` elements for each rank.
  std::unique_ptr<Collective> scatter(MpiProgress::World& world, std::int64_t sequence, float* data, float* errors,
                                      std::int64_t count, std::int64_t stripe) const;
  /// The sum of `count` elements at `data`, in place. `errors`: see MpiRing.
  std::unique_ptr<Collective> make(MpiProgress::World& world, std::int64_t sequence, float* data, float* errors,
                                   std::int64_t count) const;

 private:
  bool scatters_by_tree() const;
};

}  // namespace babelring
