#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace babelring {

/// Finalizer of MurmurHash3: a bijection of 64-bit words with full avalanche.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

/// A bijection of 32-bit words with two multiplications. Avalanche bias is below 0.2 % per output bit.
/// Source of the constants: Wellons 2018, "lowbias32".
constexpr std::uint32_t mix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Derives the seed of an independent stream from a seed and up to three indices.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  return mix64(mix64(mix64(mix64(seed + 0x9e3779b97f4a7c15ULL) + a) + b) + c);
}

/// The fields of a DropoutKey that change with every update.
struct DropoutStep {
  std::uint64_t key;
  std::int64_t first_row;
};

/// Generates dropout bits as a pure function of (key, global row, column). A row therefore gets the same bits on every
/// rank and in every micro-batch. An element is dropped if its 16 random bits are below `threshold()`.
struct DropoutKey {
  std::uint64_t key = 0;       // derived from seed, update and position in the model
  std::int64_t first_row = 0;  // index of the tensor's first row within the update, over all ranks
  float probability = 0;       // 0: no dropout
  /// Device memory that overrides key and first_row, so that a recorded kernel can be replayed with new values. Null:
  /// the members above apply. Set only by the device's backend.
  const DropoutStep* place = nullptr;

  /// Odd multiplier (2^32 / golden ratio) that decorrelates neighbouring column pairs before hashing.
  static constexpr std::uint32_t pair_factor = 0x9e3779b9U;

  constexpr std::uint32_t threshold() const { return static_cast<std::uint32_t>(probability * 65536.0f + 0.5f); }
  /// Factor for elements that are kept: 1 / (1 - threshold / 65536).
  constexpr float scale() const { return 65536.0f / static_cast<float>(65536U - threshold()); }
  constexpr std::uint32_t row_key(std::int64_t local_row) const {
    return static_cast<std::uint32_t>(
        mix64(key + static_cast<std::uint64_t>(first_row + local_row) * 0x9e3779b97f4a7c15ULL) >> 32);
  }
  /// 16 random bits for a column. Two neighbouring columns share one 32-bit hash.
  static constexpr std::uint32_t bits(std::uint32_t row_key, std::uint32_t column) {
    const std::uint32_t pair = mix32(row_key ^ ((column >> 1) * pair_factor));
    return (column & 1U) ? pair >> 16 : pair & 0xffffU;
  }
};

/// Sequential generator (splitmix64) for host-side randomness: shuffles, initial weights, jitter. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  /// Uniform in [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Uniform in [0, bound) for bounds up to 2^32, with a bias of at most bound / 2^32. Source: Lemire 2019, without the
  /// rejection step.
  std::uint64_t below(std::uint64_t bound) { return ((next() >> 32) * bound) >> 32; }
  /// Standard normal, by Box-Muller.
  double normal();

 private:
  std::uint64_t state_;
};

/// Puts the elements into a random order, each with equal probability. Source: Fisher and Yates 1938, Durstenfeld 1964.
/// Positions are drawn ahead of their use, so that an array larger than the caches need not be waited for.
template <class Element>
void shuffle(std::span<Element> elements, Random& random) {
  constexpr std::size_t ahead = 32;
  std::array<std::size_t, ahead> drawn;  // by the number of elements that are left, modulo `ahead`
  const auto draw = [&](std::size_t left) {
    const std::size_t position = random.below(left);
    __builtin_prefetch(&elements[position], 1);
    drawn[left % ahead] = position;
  };
  const std::size_t count = elements.size();
  for (std::size_t left = count; left > 1 && left + ahead > count; --left) draw(left);
  for (std::size_t left = count; left > 1; --left) {
    std::swap(elements[left - 1], elements[drawn[left % ahead]]);
    if (left > ahead + 1) draw(left - ahead);
  }
}

}  // namespace babelring
