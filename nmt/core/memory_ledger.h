#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "nmt/core/buffer.h"

namespace babelring {

/// Purpose of an allocation.
enum class MemoryPurpose : std::uint8_t {
  weights,        // masters and compute copies
  gradients,      // flat gradients, compact rows of tables, squared norms
  moments,        // of the optimizer
  activations,    // what backward reads again, and the batch
  scratch,        // what ends with its layer
  communication,  // copies that collectives need
  data,           // batches that wait
  decoding,       // caches of the beam search, packed weights
  tools,          // of lab
};
inline constexpr std::size_t memory_purposes = 9;

/// The key of step records: "weights".
std::string_view name_of(MemoryPurpose purpose);
/// For out-of-memory messages: the name, and the option that limits it.
std::string_view explain(MemoryPurpose purpose);

/// Bytes by purpose.
struct MemoryUse {
  std::array<std::int64_t, memory_purposes> bytes{};

  std::int64_t of(MemoryPurpose purpose) const { return bytes[static_cast<std::size_t>(purpose)]; }
  std::int64_t total() const;
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// Counts the memory of one device by purpose: allocated now and at the peak. Thread-safe.
class MemoryLedger {
 public:
  /// Enters `buffer` until its memory is released. The buffer returned replaces it and keeps `ledger` alive. `counted`:
  /// the bytes for which it takes memory, if not all.
  static Buffer enter(std::shared_ptr<MemoryLedger> ledger, MemoryPurpose purpose, Buffer buffer,
                      std::optional<std::size_t> counted = {});

  MemoryUse live() const;
  /// The max of each purpose since construction, each at its own moment.
  MemoryUse peak() const;
  /// Allocations at the time of the largest total.
  MemoryUse at_peak() const;

 private:
  void add(MemoryPurpose purpose, std::int64_t bytes);

  mutable std::mutex mutex_;
  MemoryUse live_, peak_, at_peak_;
};

}  // namespace babelring
