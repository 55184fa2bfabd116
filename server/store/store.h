#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/store/data_folder.h"
#include "server/store/readers.h"
#include "server/store/writer.h"

namespace babelring::store {

class BackgroundCheck;

/// The server's database: one writer and several pools of readers. Thread-safe.
class Store {
 public:
  /// Opens or creates the database in `folder`. Throws Failure if another server holds the folder, if the folder is on
  /// a network file system, or if the database is damaged or was written by a newer program. Also throws Failure if the
  /// database of a used folder is missing or empty, unless `new_database` is set.
  ///
  /// A damaged write-ahead log is logged as a warning: wal_damage().
  ///
  /// After an unclean shutdown the database is checked for damage. Up to `max_checked_at_once` bytes are checked
  /// before this returns, a larger database in the background. If the background check finds damage, writes stop and
  /// health() reports it.
  explicit Store(const std::filesystem::path& folder, bool new_database = false);
  ~Store();

  /// See Writer::submit().
  bool submit(Batch batch, Writer::Acknowledge acknowledge) {
    return writer_.submit(std::move(batch), std::move(acknowledge));
  }
  /// Runs `change` on the writer's thread in one transaction, waits for the commit, and returns the result of `change`.
  /// Throws SqlFailure, Busy or any exception of `change`; nothing is changed then.
  template <class F>
  std::invoke_result_t<F&, Database&> write(F change) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Database&>>) {
      writer_.execute(change);
    } else {
      std::optional<std::invoke_result_t<F&, Database&>> made;
      writer_.execute([&](Database& database) { made.emplace(change(database)); });
      return std::move(*made);
    }
  }
  /// The purpose of a connection. Each purpose has its own pool, so that purposes do not wait for each other.
  enum class For {
    requests,  // ordinary API requests
    queries,   // long reads, for example of series
    reports,   // reports of ranks
    own,       // supervision, alerts, events, maintenance
  };
  /// Leases a read-only connection; see Readers::lease().
  Readers::Lease reader(For what = For::requests, std::function<bool()> abandoned = {}) {
    return readers_.at(static_cast<std::size_t>(what)).lease(std::move(abandoned));
  }

  /// Closes connections that have been idle for 10 s. A burst of requests opens many, and each has a cache.
  void close_unused_readers() {
    for (Readers& readers : readers_) readers.close_unused(std::chrono::seconds(10));
  }

  /// A counter that grows with every commit, before the commit is acknowledged.
  std::uint64_t revision() const { return writer_.revision(); }

  static constexpr std::uintmax_t max_checked_at_once = std::uintmax_t{64} << 20;

  struct Health {
    bool database = false, disk = false, queue = false;
    bool well() const { return database && disk && queue; }
  };
  /// database: readable and no damage found. disk: at least 64 MiB free. queue: the writer keeps up.
  Health health();

  /// The damage of the write-ahead log that this start found, and with it lost records; nothing if it was sound.
  const std::optional<WalDamage>& wal_damage() const { return wal_damage_; }

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Path of the database. The WAL is in the same folder.
  std::filesystem::path database_file() const;
  std::uintmax_t free_bytes() const { return folder_.free_bytes(); }
  /// True if the last server of this folder ended because it was asked to.
  bool ended_cleanly() const { return folder_.was_clean(); }
  /// Counters of the writer since the server started.
  WriterCounts counts() const { return writer_.counts(); }

 private:
  DataFolder folder_;
  const std::optional<WalDamage> wal_damage_;  // before the writer, whose connection recovers the log
  Writer writer_;
  std::array<Readers, 4> readers_;          // by For; closed before the writer, so that it can checkpoint the whole WAL
  std::unique_ptr<BackgroundCheck> check_;  // only for a large database after an unclean shutdown
};

}  // namespace babelring::store
