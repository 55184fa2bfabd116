#include "server/store/checkpoints.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/api/conditional.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/retention_service.h"

namespace babelring::api {
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
