#include "tests/server/test_server.h"

#include <array>
#include <cstdlib>
#include <future>
#include <stdexcept>

#include "server/http/static_files.h"

namespace babelring::testing {

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "babelring-server-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = std::filesystem::canonical(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TestServer::TestServer(const http::Limits& limits, events::EventHub::Limits events, http::AdmissionOptions admission)
    : limits_(limits), event_limits_(events), admission_(std::move(admission)) {
  start();
}

void TestServer::start() {
  store_ = std::make_unique<store::Store>(folder_.path());
  events_ = std::make_unique<events::EventHub>(event_limits_);
  service_.reset(new api::Service{*store_, *events_, {std::filesystem::canonical(folder_.path())}});
  control_ = std::make_unique<launch::ControlPlane>(
      *store_, launch::ControlOptions{.worker = folder_.path() / "worker", .runs_folder = folder_.path() / "runs"});
  service_->control = control_.get();
  if (!service_->tokens.identify(admin_secret)) {
    service_->tokens.create({"test admin", http::Scope::admin, "", std::nullopt, "test"}, admin_secret);
  }
  admission_.authenticator = &service_->tokens;
  admission_.audit = &service_->audit;
  admission_.ranks = &service_->ranks;
  http::Server::Options options;
  options.limits = limits_;
  server_ = std::make_unique<http::Server>(options);
  static constexpr std::array<http::PageFile, 0> no_page = {};
  server_->start([this](http::Dispatcher::Executor executor) {
    service_->lanes = executor;
    return http::Dispatcher(make_router(), http::StaticFiles(no_page, {}), admission_, std::move(executor));
  });
}

http::Router TestServer::make_router() {
  http::Router router = api::make_router(*service_);
  router.wrap([this](const http::Route& route, http::AsyncHandler handler) -> http::AsyncHandler {
    const auto held = std::make_shared<http::Route>(route);
    return [this, held, handler = std::move(handler)](const auto& request, const auto& reply) {
      std::function<void(const http::Route&)> before;
      {
        const std::lock_guard lock(mutex_);
        before = before_;
      }
      if (before) before(*held);
      handler(request, reply);
    };
  });
  return router;
}

void TestServer::stop() {
  server_.reset();
  service_.reset();
  control_.reset();
  events_.reset();
  store_.reset();
}

void TestServer::restart() {
  stop();
  start();
}

Record record_of(RecordBody body, std::int64_t sequence, std::int64_t rank, std::int64_t attempt) {
  Record record;
  record.header.run = run_id;
  record.header.attempt = attempt;
  record.header.rank = rank;
  record.header.sequence = sequence;
  record.header.host = rank < 2 ? "hostA" : "hostB";
  record.header.time_ms = 1'795'233'600'000 + sequence * 100;
  record.body = std::move(body);
  return record;
}

Record step_record(std::int64_t sequence, std::int64_t update, std::int64_t rank, std::int64_t attempt) {
  StepRecord step;
  step.update = update;
  step.loss = 10.0 / static_cast<double>(update);
  step.times.step = 100;
  step.target_tokens = 100 + rank;
  step.network_tx_bytes = 1000 + rank;
  Record record = record_of(step, sequence, rank, attempt);
  record.header.time_ms = 1'795'233'600'000 + update * 100;
  return record;
}

std::string batch_text(const std::vector<Record>& records) {
  const RecordHeader& header = records.front().header;
  return to_text(batch_to_json(header.attempt, header.rank, header.host, records));
}

store::Batch batch_of(std::vector<Record> records) {
  const RecordHeader header = records.front().header;
  return {header.run, header.attempt, header.rank, header.host, std::move(records)};
}

store::IngestResult put(store::Store& store, std::vector<Record> records) {
  std::promise<store::IngestResult> done;
  const bool taken =
      store.submit(batch_of(std::move(records)),
                   [&](const store::Batch&, const store::IngestResult& result) { done.set_value(result); });
  if (!taken) throw std::runtime_error("submit refused");
  return done.get_future().get();
}

}  // namespace babelring::testing
