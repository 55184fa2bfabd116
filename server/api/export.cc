#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/store/series/series.h"

namespace babelring::api {
namespace {

constexpr std::size_t rows_per_chunk = 2000;

/// Streams all stored steps of a run as CSV, in batches of a few thousand rows. Holds no database connection while the
/// client reads, so that a slow client does not block checkpointing of the write-ahead log.
class StepExport : public http::BodyStream {
 public:
  StepExport(Service& service, std::int64_t run, std::vector<std::string> keys)
      : service_(service), run_(run), keys_(std::move(keys)) {}

  std::string next() override {
    std::string csv;
    if (!std::exchange(begun_, true)) {
      csv = "rank,attempt,step,time_ms";
      for (const std::string& key : keys_) csv += ',' + key;
      csv += '\n';
    }
    auto reader = service_.store.reader(store::Store::For::queries);
    store::export_rows(*reader, run_, keys_, rows_per_chunk, cursor_, csv);
    return csv;
  }

 private:
  Service& service_;
  const std::int64_t run_;
  const std::vector<std::string> keys_;
  store::ExportCursor cursor_;
  bool begun_ = false;
};

}  // namespace

http::Response export_steps(Service& service, const http::Request& request) {
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  http::Response response;
  response.set("Content-Type", "text/csv; charset=utf-8").set("Cache-Control", "no-store");
  response.set("Content-Disposition", fmt::format("attachment; filename=\"{}.csv\"", run.id));
  response.body = std::make_shared<StepExport>(service, run.number, store::all_keys(*reader, run.number));
  return response;
}

}  // namespace babelring::api
