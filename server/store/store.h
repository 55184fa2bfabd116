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

/// Everything the server stores. Thread-safe.
class Store {
 public:
  /// Opens or creates the database in `folder`. Throws Failure if the folder is held by another server or on a network
  /// file system, or the database is damaged or of a newer program, or missing or empty although a server has used the
  /// folder, unless `new_database` asks for an empty one. After an unclean shutdown the database is checked:
  /// one of up to `most_checked_at_once` bytes before this returns, a larger one in the background; if that finds
  /// damage, nothing is written any more and health() says so.
  explicit Store(const std::filesystem::path& folder, bool new_database = false);
  ~Store();

  /// See Writer::submit.
  bool submit(Batch batch, Writer::Acknowledge acknowledge) {
    return writer_.submit(std::move(batch), std::move(acknowledge));
  }
  /// Runs `change` on the writer's thread in one transaction, waits for the commit and returns what `change` returned.
  /// Throws what `change` throws, SqlFailure, or Busy; nothing is changed then.
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
  /// What a connection is for. Each purpose has connections of its own, so that none waits for another.
  enum class For {
    requests,  // of people and programs
    queries,   // that read series, or else may take long
    reports,   // of ranks
    own,       // supervision, alerts, announcements, upkeep
  };
  /// A connection for functions that read: Readers::lease().
  Readers::Lease reader(For what = For::requests, std::function<bool()> abandoned = {}) {
    return readers_.at(static_cast<std::size_t>(what)).lease(std::move(abandoned));
  }

  /// Closes connections that have not been used for 10 s: a burst of requests opens many, and each has a cache.
  void close_unused_readers() {
    for (Readers& readers : readers_) readers.close_unused(std::chrono::seconds(10));
  }

  /// A number that grows with every commit, before anyone is told of it.
  std::uint64_t revision() const { return writer_.revision(); }

  static constexpr std::uintmax_t most_checked_at_once = std::uintmax_t{64} << 20;

  struct Health {
    bool database = false, disk = false, queue = false;
    bool well() const { return database && disk && queue; }
  };
  /// database: readable, and not found damaged; disk: 64 MiB are free beside it; queue: the writer keeps up.
  Health health();

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Path of the database; its WAL is beside it.
  std::filesystem::path database_file() const;
  std::uintmax_t free_bytes() const { return folder_.free_bytes(); }
  /// What the writer has done since the start.
  WriterCounts counts() const { return writer_.counts(); }

 private:
  DataFolder folder_;
  Writer writer_;
  std::array<Readers, 4> readers_;          // by For; closed before the writer, which then checkpoints the whole WAL
  std::unique_ptr<BackgroundCheck> check_;  // of a large database after an unclean shutdown; else null
};

}  // namespace babelring::store
