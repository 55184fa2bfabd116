#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring {

/// The used bytes of both arenas at the end of an op.
struct MemoryMoment {
  std::string phase, layer, op;
  std::int64_t saved = 0, scratch = 0;

  std::int64_t bytes() const { return saved + scratch; }
};

/// Tensors that an op wrote.
struct MemoryOwner {
  std::string layer, op, field;
  std::int64_t bytes = 0;
};

/// The memory of one rank inside one update.
struct MemoryReport {
  std::int64_t update = 0;  // 0: a dry update
  std::int64_t rank = 0;
  std::string device;                                 // cpu, cuda
  std::string precision;                              // f32, bf16
  std::int64_t source_tokens = 0, target_tokens = 0;  // of the rank's last micro-batch
  std::map<std::string, std::int64_t> beside_arenas;  // weights, gradients, moments, …
  std::int64_t saved_peak = 0, scratch_peak = 0;      // of each arena, at its own moment
  std::size_t peak = 0;                               // index of the moment with the most bytes
  std::vector<MemoryOwner> owners;                    // at the peak: the ten largest
  std::int64_t other = 0;                             // at the peak: bytes of further owners, token ids and padding
  std::vector<MemoryMoment> moments;                  // one for each op

  /// All bytes at the peak, those beside the arenas too. Throws if there are no moments.
  std::int64_t peak_bytes() const;
};

json::object to_json(const MemoryReport& report);
/// The Error names the member that is missing or of another type.
Result<MemoryReport> memory_report_from_json(const json::value& value);

/// A text of a screen: sizes by purpose, the peak with its op, its owners.
std::string text_of(const MemoryReport& report);
/// A line for each op, after a line with the names of the columns.
std::string csv_of(const MemoryReport& report);
/// A page of HTML with the curve as inline SVG; it needs no other file.
std::string html_of(const MemoryReport& report);

}  // namespace babelring
