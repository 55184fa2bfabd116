#pragma once

#include <bit>
#include <cstdint>

namespace babelring {

/// Hosts of a sum by a tree that exchange halves: the largest power of two. Each other host gives all its values to one
/// of them first, and gets the sums last.
inline int pairing_hosts(int hosts) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
}

/// True if a tree over `hosts` hosts sums `bytes` bytes of f32 sooner than a ring does. For four hosts and more that
/// are a power of two it always does, with as many bytes in fewer steps: then the bits of a sum do not depend on its
/// size. Other trees send more bytes, which must cost less than the steps saved, each counted as 100 us at 1 Gbit/s.
/// These are constants because all ranks must choose alike, and a run that resumes on other links must keep its bits.
/// Used by the worker, and by predictions of it.
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
