#include "cli/trace/spooled_steps.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "base/failure.h"
#include "base/json.h"
#include "base/records/spool_reader.h"
#include "base/result.h"
#include "base/text.h"
#include "nmt/data/line_reader.h"

namespace babelring {

namespace fs = std::filesystem;

std::vector<fs::path> spools_of(const fs::path& run, int rank) {
  constexpr std::string_view prefix = "attempt-";
  std::map<std::int64_t, fs::path> by_attempt;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "spool", none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto attempt = parse_number<std::int64_t>(std::string_view(name).substr(prefix.size()));
    const fs::path file = entry.path() / fmt::format("rank-{}.jsonl", rank);
    if (attempt && fs::exists(file)) by_attempt[*attempt] = file;
  }
  if (by_attempt.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no spool/attempt-*/rank-{}.jsonl, expected the folder of a run", run.string(), rank));
  }
  std::vector<fs::path> spools;
  for (const auto& [attempt, file] : by_attempt) {
    for (fs::path& part : spool_parts(file)) spools.push_back(std::move(part));
  }
  return spools;
}

void for_each_record(const fs::path& spool, const std::function<void(const Record&)>& each) {
  LineReader reader(spool);
  for (RawLine line; reader.next(line);) {
    const Result<json::value> object = parse_json(line.text);
    if (!object || !object->is_object()) continue;
    UnknownMembers newer;
    const Result<Record> record = record_from_json(object->get_object(), &newer);
    if (!record) fail("{}: line {}: {}", spool.string(), line.number, record.error());
    each(*record);
  }
}

void for_each_step(const fs::path& spool, const std::function<void(const RecordHeader&, const StepRecord&)>& each) {
  for_each_record(spool, [&each](const Record& record) {
    if (const auto* step = std::get_if<StepRecord>(&record.body)) each(record.header, *step);
  });
}

}  // namespace babelring
