#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "server/alerts/alert_watch.h"
#include "server/api/routes.h"
#include "server/http/server.h"
#include "server/launch/control_plane.h"
#include "tests/server/client.h"

namespace babelring::testing {

inline const std::string run_id = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E";

/// A folder that is removed with all in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The whole service within the test, on a free port.
class TestServer {
 public:
  /// Asks for tokens, and knows admin_secret, which a Client sends.
  explicit TestServer(const http::Limits& limits = {}, events::EventHub::Limits events = {},
                      http::AdmissionOptions admission = {});
  std::uint16_t port() const { return server_->port(); }
  std::size_t connections() const { return server_->connections(); }
  store::Store& store() { return *store_; }
  events::EventHub& events() { return *events_; }
  api::Service& service() { return *service_; }
  /// Sends alerts to the event streams of this server.
  alerts::AlertWatch::OnChange alert_publisher() {
    return [this](const store::AlertRow& alert) { api::publish_alert(*service_, alert); };
  }
  http::Server& http_server() { return *server_; }
  /// Takes runs but starts none; profiles' worker is the file `worker` in folder(), for tests that put one there.
  launch::ControlPlane& control() { return *control_; }
  /// Makes a token and returns its secret.
  std::string token(http::Scope scope, const std::string& run = "", const std::string& run_prefix = "") {
    return service_->tokens.create({"test", scope, run, std::nullopt, "test", run_prefix}).secret;
  }
  /// Called on the thread of the lane before each handler, for tests that hold requests there. Empty: nothing is.
  void before_handlers(std::function<void(const http::Route&)> call) {
    const std::lock_guard lock(mutex_);
    before_ = std::move(call);
  }
  const http::Lanes& lanes() { return *service_->lanes; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Ends everything and begins anew on the same data.
  void restart();
  void stop();

 private:
  void start();
  http::Router make_router();
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::function<void(const http::Route&)> before_;
  http::Limits limits_;
  events::EventHub::Limits event_limits_;
  http::AdmissionOptions admission_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<events::EventHub> events_;
  std::unique_ptr<launch::ControlPlane> control_;
  std::unique_ptr<api::Service> service_;
  std::unique_ptr<http::Server> server_;
};

/// A step record whose loss is 10 / update.
Record step_record(std::int64_t sequence, std::int64_t update, std::int64_t rank = 0, std::int64_t attempt = 1);
Record record_of(RecordBody body, std::int64_t sequence, std::int64_t rank = 0, std::int64_t attempt = 1);
/// The ingest route's body.
std::string batch_text(const std::vector<Record>& records);
store::Batch batch_of(std::vector<Record> records);
inline std::string records_path() {
  return "/api/v1/runs/" + run_id + "/records";
}

/// Stores a batch and waits for its acknowledgement.
store::IngestResult put(store::Store& store, std::vector<Record> records);

}  // namespace babelring::testing
