#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace babelring {

/// A set of held-out sequences of one length. Thread-safe.
class SequenceSet {
 public:
  virtual ~SequenceSet() = default;

  virtual const std::string& name() const = 0;
  virtual std::int64_t sequences() const = 0;
  /// Tokens of a sequence. The first is given, the others are targets.
  virtual std::int64_t length() const = 0;
  /// Writes sequence i to `tokens` [length].
  virtual void read(std::int64_t i, std::span<std::int32_t> tokens) const = 0;
  /// The source's entropy, as the sum of -log p over the targets of sequences [first, last), in nats; NaN if unknown.
  /// `threads` does not affect the result.
  virtual double entropy(std::int64_t first, std::int64_t last, int threads) const = 0;
};

}  // namespace babelring
