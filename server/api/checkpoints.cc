#include <algorithm>

#include "base/digest.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/downloads.h"
#include "server/artifacts/retention_service.h"
#include "server/http/download.h"
#include "server/store/checkpoints.h"

namespace babelring::api {

http::Response download_file(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  const std::string& name = request.parameter("name");
  // The requested name is only compared; the path comes from the manifest.
  for (const ManifestFile& entry : artifacts::manifest_of(checkpoint)) {
    if (entry.name != name) continue;
    FileDescriptor opened = artifacts::open_file(artifacts::folder_of(service.checkpoint_roots, checkpoint), entry);
    http::Download download{std::move(opened), entry.bytes, entry.name, entry.sha256};
    return service.downloads.count(request, checkpoint.id, http::download_response(request, std::move(download)));
  }
  throw http::Problem(404, "file_unknown", fmt::format("checkpoint {} has no file '{}'", checkpoint.id, name));
}

/// A tar of all files and SHA256SUMS in a folder with the checkpoint's name, in the order of the manifest. Its bytes
/// depend only on the manifest and the files' content.
http::Response download_archive(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  const auto folder = artifacts::folder_of(service.checkpoint_roots, checkpoint);
  const auto files = artifacts::manifest_of(checkpoint);
  const std::int64_t time_s = checkpoint.created_ms / 1000;
  http::Assembly tar{{}, checkpoint.name + ".tar", "application/x-tar", {}};
  for (const ManifestFile& entry : files) {
    tar.body.add(artifacts::tar_header(checkpoint.name + '/' + entry.name, entry.bytes, time_s));
    tar.body.add(http::FileSlice{artifacts::open_file(folder, entry), 0, entry.bytes});
    tar.body.add(artifacts::tar_padding(entry.bytes));
  }
  const std::string sums = artifacts::sums_of(files);
  const auto sums_bytes = static_cast<std::int64_t>(sums.size());
  tar.body.add(artifacts::tar_header(checkpoint.name + "/SHA256SUMS", sums_bytes, time_s));
  tar.body.add(sums + artifacts::tar_padding(sums_bytes) + artifacts::tar_end());
  tar.etag =
      fmt::format("\"tar-{}\"", sha256_hex(fmt::format("1 {} {} {}", checkpoint.name, time_s, checkpoint.files)));
  return service.downloads.count(request, checkpoint.id, http::download_response(request, std::move(tar)));
}

http::Response show_sums(Service& service, const http::Request& request) {
  return http::text_response(200, "text/plain; charset=utf-8",
                             artifacts::sums_of(artifacts::manifest_of(
                                 artifacts::require_checkpoint(service.store, request.parameter("checkpoint")))));
}

namespace {

/// The member that a complaint begins with: "keep_best.count: expected …".
std::vector<http::Problem::Fault> faults_of_policy(const std::string& complaint) {
  const auto colon = complaint.find(": ");
  if (colon == std::string::npos || complaint.starts_with("expected ")) return {};  // of the whole body
  std::string pointer = "/" + complaint.substr(0, colon);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return {{.pointer = std::move(pointer), .detail = complaint.substr(colon + 2)}};
}

json::object current_policy(store::Reader& reader, const store::RunRow& run) {
  const std::string text = store::retention_of(reader, run.number);
  return text.empty() ? to_json(artifacts::RetentionPolicy{}) : parse_json(text).value().as_object();
}

}  // namespace

http::Response show_retention(Service& service, const http::Request& request) {
  auto reader = service.store.reader(store::Store::For::own);
  return resource_response(request, current_policy(*reader, require_run(*reader, request)));
}

http::Response replace_retention(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("run"));
  std::optional<store::RunRow> run;
  {
    auto reader = service.store.reader(store::Store::For::own);
    run = require_run(*reader, request);
    require_match(request, state_digest(current_policy(*reader, *run)));
  }
  const auto policy = artifacts::policy_from_json(parse_body(request));
  if (!policy) throw http::Problem(422, "policy_refused", policy.error(), faults_of_policy(policy.error()));
  const json::object value = to_json(*policy);
  access::audited_write(service.audit, request, 200, [&](store::Database& database) {
    store::set_retention(database, run->number, to_text(value), policy->max_log_bytes);
  });
  service.retention.wake();
  return json_response(value);
}

namespace {

bool sorted_by_bleu(const http::Request& request) {
  const std::string sort = request.query_value("sort").value_or("step");
  if (sort == "step" || sort == "bleu") return sort == "bleu";
  throw http::Problem(400, "bad_parameter", fmt::format("sort: expected step or bleu, found '{}'", sort));
}

http::Response no_content() {
  http::Response response;
  response.status = 204;
  return response;
}

/// Publishes the checkpoint's new state to the event streams.
void publish_checkpoint(Service& service, const std::string& id) {
  auto reader = service.store.reader();
  const auto checkpoint = store::find_checkpoint(*reader, id);
  if (checkpoint) service.events.publish(checkpoint->run, "checkpoint", to_text(checkpoint_item(*checkpoint)));
}

/// The mark on disk stops the worker's retention; the row is what clients see.
http::Response set_pin(Service& service, const http::Request& request, bool pinned) {
  const auto one_at_a_time = service.edits.lock(request.parameter("checkpoint"));
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  require_match(request, state_digest(checkpoint_item(checkpoint)));
  if (checkpoint.removed && !pinned) return no_content();
  artifacts::change_pin(artifacts::folder_of(service.checkpoint_roots, checkpoint), pinned, [&] {
    access::audited_write(service.audit, request, 204, [&](store::Database& database) {
      static_cast<void>(store::set_pinned(database, checkpoint.id, pinned));
    });
  });
  publish_checkpoint(service, checkpoint.id);
  return no_content();
}

/// Throws Problem 409 for a checkpoint that must not be removed.
void require_unprotected(Service& service, const store::CheckpointRow& checkpoint) {
  using artifacts::Protection;
  const std::string& name = checkpoint.name;
  switch (artifacts::protection_on_disk(service.artifacts, checkpoint)) {
    case Protection::none:
      return;
    case Protection::pinned:
      throw http::Problem(409, "pinned", fmt::format("{} is pinned: unpin it first", name));
    case Protection::best:
      throw http::Problem(409, "best", fmt::format("{} is the run's best checkpoint", name));
    case Protection::last:
      throw http::Problem(409, "last", fmt::format("{} is the run's last complete checkpoint", name));
    case Protection::in_use:
      throw http::Problem(409, "in_use", fmt::format("{} is being read", name));
  }
}

}  // namespace

http::Response list_checkpoints(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request);
  store::CheckpointFilter filter;
  filter.complete = flag_query(request, "complete");
  filter.pinned = flag_query(request, "pinned");
  filter.removed = flag_query(request, "removed").value_or(false);
  filter.by_bleu = sorted_by_bleu(request);
  filter.before = read_cursor(request);
  filter.limit = limit + 1;  // one more shows whether there is a next page
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto checkpoints = store::list_checkpoints(*reader, run.number, filter);
  auto next = end_page(checkpoints, limit,
                       [](const store::CheckpointRow& last) { return make_cursor(last.step, last.number); });
  json::array items;
  for (const store::CheckpointRow& checkpoint : checkpoints) items.push_back(checkpoint_item(checkpoint));
  return page_response(request, std::move(items), std::move(next));
}

http::Response show_checkpoint(Service& service, const http::Request& request) {
  return resource_response(
      request, checkpoint_item(artifacts::require_checkpoint(service.store, request.parameter("checkpoint"))));
}

http::Response delete_checkpoint(Service& service, const http::Request& request) {
  auto one_at_a_time = service.edits.lock(request.parameter("checkpoint"));
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  require_match(request, state_digest(checkpoint_item(checkpoint)));
  artifacts::folder_of(service.checkpoint_roots, checkpoint);
  require_unprotected(service, checkpoint);
  artifacts::remove_checkpoint(service.artifacts, checkpoint, [&] {
    access::audited_write(service.audit, request, 204,
                          [&](store::Database& database) { store::begin_removal(database, checkpoint.id); });
    one_at_a_time.unlock();  // the row is marked; deleting the files may take long
  });
  publish_checkpoint(service, checkpoint.id);
  return no_content();
}

http::Response pin_checkpoint(Service& service, const http::Request& request) {
  return set_pin(service, request, true);
}

http::Response unpin_checkpoint(Service& service, const http::Request& request) {
  return set_pin(service, request, false);
}

}  // namespace babelring::api
