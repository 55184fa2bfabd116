#pragma once

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

/// Everything the server remembers. Safe to use from any thread.
class Store {
 public:
  /// Opens or makes the database in `folder`. Throws Failure: held by another server, on a network file system,
  /// damaged, or written by a newer program. After an unclean stop the database is checked: one of up to
  /// `most_checked_at_once` bytes before this returns, a larger one meanwhile; where that finds damage, nothing is
  /// written any more, and health() says so.
  explicit Store(const std::filesystem::path& folder);
  ~Store();

  /// See Writer::submit.
  bool submit(Batch batch, Writer::Acknowledge acknowledge) {
    return writer_.submit(std::move(batch), std::move(acknowledge));
  }
  /// Runs `change` on the writer's thread in one transaction and returns what it returns, after the commit. Waits.
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
  /// A connection for the functions of queries.h and series.h. Waits while all are lent.
  Readers::Lease reader() { return readers_.lease(); }

  /// Another number after every commit, before anybody is told of it.
  std::uint64_t revision() const { return writer_.revision(); }

  static constexpr std::uintmax_t most_checked_at_once = std::uintmax_t{64} << 20;

  struct Health {
    bool database = false, disk = false, queue = false;
    bool well() const { return database && disk && queue; }
  };
  /// Is the database readable, are 64 MiB free beside it, does ingest keep up?
  Health health();

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// The database, with its WAL beside it.
  std::filesystem::path database_file() const;
  std::uintmax_t free_bytes() const { return folder_.free_bytes(); }
  /// What the writer has done since the start.
  WriterCounts counts() const { return writer_.counts(); }

 private:
  DataFolder folder_;
  Writer writer_;
  Readers readers_;                         // closed before the writer, which then takes the WAL back into the file
  std::unique_ptr<BackgroundCheck> check_;  // after an unclean stop, of a large database
};

}  // namespace babelring::store
