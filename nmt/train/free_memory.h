#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// The part of memory that `auto` leaves free after the model and its moments are allocated: this fraction of the
/// total, plus a fixed size on a device, for the memory that its libraries allocate.
inline constexpr double memory_margin = 0.1;
inline constexpr std::size_t device_margin_bytes = std::size_t{1} << 30;

/// For messages about `auto`.
inline constexpr const char* unknown_memory = "free memory is unknown on at least one rank; give a number";

/// Bytes of the free memory `room` that this rank may use: its share of a host's memory, or that of its device.
std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room);

/// "rank 0 may use 1.20 GiB, 3.10 of 4.00 GiB were free". `usable`: of this rank, in bytes.
std::string room_text(std::size_t usable, const MemoryInfo& room);
/// "a rank may use 1000: 2000 of 4000 bytes are free", for refusals.
std::string too_little_text(std::size_t usable, const MemoryInfo& room);

/// The max size from `min` to `max` that fits, by bisection to 1 % or `tolerance`. 0 if `min` does not fit. `min` may
/// be larger than `max`.
std::int64_t max_fitting(std::int64_t min, std::int64_t max, std::int64_t tolerance,
                         const std::function<bool(std::int64_t size)>& fits);

/// The smallest value of all ranks. Collective.
std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator);

}  // namespace babelring
