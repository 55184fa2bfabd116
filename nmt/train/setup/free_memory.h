#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// The part of memory that `auto` leaves free after the model and its moments are allocated: this fraction of the
/// total, plus a fixed size on a device, for the memory that its libraries allocate.
inline constexpr double memory_margin = 0.1;
inline constexpr std::size_t device_margin_bytes = std::size_t{1} << 30;

/// For messages about `auto`.
inline constexpr const char* unknown_memory = "free memory is unknown on at least one rank; give a number";

/// The part of a rank's share of a host's memory that `auto` gives to the arenas. A larger pass is no faster on CPUs;
/// the rest is for what other programs take later, and for what a run allocates now and then, as beam search.
inline constexpr double host_arena_part = 0.5;
/// Bytes that a process of a host takes during the first updates for no purpose of the ledger: compiled matmuls,
/// threads, the log. Measured: 30 to 40 MB with 5 to 50 shapes of matmuls.
inline constexpr std::size_t process_growth_bytes = std::size_t{64} << 20;

/// Bytes that are allocated between a plan and the end of the first updates, beside arenas.
struct LaterMemory {
  std::size_t of_host = 0, of_rank = 0;
};

/// A run's: batches that wait, the copy of weights and moments of a checkpoint that is being written, the translations
/// of a validation, and the growth of the process. `tokens`: of a rank's part of an update, on its larger side. Zero on
/// a device.
LaterMemory later_memory(const TrainConfig& config, const Backend& backend, std::int64_t tokens,
                         std::int64_t parameters);

/// Bytes of the free memory `room` that this rank may use: its share of a host's memory, or that of its device.
std::size_t arena_room(const Backend& backend, const Communicator& communicator, const MemoryInfo& room,
                       const LaterMemory& later);
/// The part of arena_room() for the arenas of more than the smallest pass.
std::size_t arena_part(const Backend& backend, std::size_t usable);

/// "rank 0 may use 1.20 GiB, 3.10 of 4.00 GiB were free". `usable`: of this rank, in bytes.
std::string room_text(std::size_t usable, const MemoryInfo& room);
/// "a rank may use 1000: 2000 of 4000 bytes are free", for refusals, and for what the rest stays free.
std::string too_little_text(std::size_t usable, const MemoryInfo& room, const LaterMemory& later);

/// The max size from `min` to `max` that fits, by bisection to 1 % or `tolerance`. 0 if `min` does not fit. `min` may
/// be larger than `max`.
std::int64_t max_fitting(std::int64_t min, std::int64_t max, std::int64_t tolerance,
                         const std::function<bool(std::int64_t size)>& fits);

/// The smallest value of all ranks. Collective.
std::int64_t min_over_ranks(std::int64_t mine, Communicator& communicator);

}  // namespace babelring
