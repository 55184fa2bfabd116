#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "base/choices.h"

// How the gradients of all ranks are summed: terms of the worker, and of predictions of it.
namespace babelring {

/// The algorithm of a sum. No part of the program supports all: each lists its own in a Choices.
enum class AllReduceAlgorithm {
  automatic,      // NCCL between GPUs; else shared_memory on one host, two_level on hosts with several ranks each, if
                  // possible; else ring
  shared_memory,  // one host only: each rank sums one shard in place, reading the other ranks' memory
  two_level,      // TwoLevelAllReduce: shared memory within hosts with the same number of ranks, messages between them
  ring,           // MpiRing, over point-to-point messages: 2 (n − 1) steps, each of 1/n of the bytes to the next rank
  mpi,            // MPI_Iallreduce
  nccl,           // between GPUs, by an algorithm that NCCL chooses
  nccl_ring,
  tree,  // predicted only: segments go up to the root and down again, one behind the other; not the tree between hosts
  staged,  // predicted only: a ring in host memory after backward, with copies from the device and back
};

/// Element type of gradients in messages. Each rank rounds the partial sum that it sends, the receiver adds it in f32,
/// and the final sum is rounded once more, by one rank: the others receive its message, so results are bit-equal. These
/// are n roundings for n ranks. Shared memory sends no messages and always sums in f32.
/// - bf16: half the bytes. Each rounding has an error of at most 2^-8 of the partial sum. To first order |error| <=
///   n 2^-8 (sum over ranks of |value|); the typical error grows with sqrt(n).
/// - int8: a quarter, in blocks of int8_block elements with one f32 scale (see encode_int8()). The error of each
///   rounding is at most 1/254 of the largest magnitude in the block. The rank that rounds keeps the error and adds it
///   to its values of the next sum (error feedback: Seide et al. 2014, "1-Bit Stochastic Gradient Descent"), so over
///   several sums only the last errors are missing. If a value of a block is not finite, its whole block becomes NaN.
enum class GradientWire { f32, bf16, int8 };

inline const Choices<GradientWire>& wire_choices() {
  static const Choices<GradientWire> choices = {
      {"f32", GradientWire::f32}, {"bf16", GradientWire::bf16}, {"int8", GradientWire::int8}};
  return choices;
}
inline std::string name_of(GradientWire wire) {
  return word_of(wire_choices(), wire);
}

/// Where masters and moments are kept and updated.
enum class OptimizerPlacement {
  automatic,
  replicated,  // on every host: gradients are summed for all hosts
  sharded,     // a shard of them on each host: it receives the sums of its shard only, and sends the others the weights
               // that it updated, while the next forward pass begins
};

/// Hosts of a sum by a tree that exchange halves: the largest power of two. Each other host gives all its values to one
/// of them first, and gets the sums last.
inline int pairing_hosts(int hosts) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
}

/// True if a tree over `hosts` hosts sums `bytes` bytes of f32 sooner than a ring does. For four hosts and more that
/// are a power of two it always does, with as many bytes in fewer steps: then the bits of a sum do not depend on its
/// size. Other trees send more bytes, which must cost less than the steps saved, each counted as 100 us at 1 Gbit/s.
/// These are constants because all ranks must choose alike, and a run that resumes on other links must keep its bits.
inline bool tree_is_faster(int hosts, std::int64_t bytes) {
  constexpr double step_bytes = 12'500;  // that a link of 1 Gbit/s carries in the 100 us of a step
  if (hosts < 4) return false;           // the ring has as few steps, and keeps both directions busy
  const int pairing = pairing_hosts(hosts), levels = std::countr_zero(static_cast<unsigned>(pairing));
  if (pairing == hosts) return true;
  const int steps_saved = 2 * (hosts - 1) - 2 * (levels + 1);
  // Per byte, of a host that takes another's values.
  const double more = 2.0 * (pairing - 1) / pairing + 1 - 2.0 * (hosts - 1) / hosts;
  return static_cast<double>(bytes) * more <= steps_saved * step_bytes;
}

/// Messages of a sum by a tree that follow one another.
inline int tree_messages(int hosts) {
  const int pairing = pairing_hosts(hosts);
  return 2 * (std::countr_zero(static_cast<unsigned>(pairing)) + (pairing < hosts ? 1 : 0));
}

}  // namespace babelring
