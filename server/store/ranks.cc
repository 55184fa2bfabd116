#include "server/store/ranks.h"

#include "server/store/sequence_set.h"

namespace babelring::store {

template <same_row<RankRow> Row, class Column>
void visit_columns(Row& rank, Column&& column) {
  column("rank", rank.rank);
  column("attempt", rank.attempt);
  column("host", rank.host);
  column("pid", rank.pid);
  column("device", rank.device);
  column("first_update", rank.first_update);
  column("last_update", rank.last_update);
  column("updated_ms", rank.updated_ms);
}

std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                std::int64_t limit) {
  static const std::string sql =
      select<RankRow>("FROM ranks WHERE run = ? AND attempt = ? AND rank >= ? ORDER BY rank LIMIT ?");
  auto ranks = reader.database.prepare(sql).bind(run, attempt, first, limit).all<RankRow>();
  for (RankRow& rank : ranks) {
    const SequenceSet arrived(read_arrivals(reader.database, run, attempt, rank.rank));
    rank.records = arrived.size();
    rank.missing = arrived.missing();
    rank.last = last_step(reader, run, rank.rank);
  }
  return ranks;
}

}  // namespace babelring::store
