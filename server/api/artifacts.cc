#include "server/store/artifacts.h"

#include <algorithm>

#include "base/clock.h"
#include "server/api/conditional.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/lab_files.h"
#include "server/http/download.h"

namespace babelring::api {
namespace {

std::string kind_query(const http::Request& request) {
  const std::string kind = request.query_value("kind").value_or("");
  const auto& kinds = artifact_kinds;
  if (kind.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return kind;
  throw http::Problem(400, "bad_parameter", fmt::format("kind: expected {}, found '{}'", fmt::join(kinds, ", "), kind));
}

}  // namespace

json::object artifact_item(const store::ArtifactRow& artifact) {
  return {{"id", artifact.id},           {"run", artifact.run},
          {"attempt", artifact.attempt}, {"rank", artifact.rank},
          {"update", artifact.step},     {"kind", artifact.kind},
          {"name", artifact.name},       {"created_at", format_rfc3339(artifact.created_ms)},
          {"removed", artifact.removed}, {"bytes", artifact.size},
          {"sha256", artifact.sha256},   {"content_bytes", artifact.content_bytes}};
}

http::Response list_artifacts(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request);
  store::ArtifactFilter filter;
  filter.kind = kind_query(request);
  filter.removed = flag_query(request, "removed").value_or(false);
  filter.before = read_cursor(request);
  filter.limit = limit + 1;  // one more shows whether there is a next page
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto artifacts = store::list_artifacts(*reader, run.number, filter);
  auto next =
      end_page(artifacts, limit, [](const store::ArtifactRow& last) { return make_cursor(last.step, last.number); });
  json::array items;
  for (const store::ArtifactRow& artifact : artifacts) items.push_back(artifact_item(artifact));
  return page_response(request, std::move(items), std::move(next));
}

http::Response show_artifact(Service& service, const http::Request& request) {
  const store::ArtifactRow artifact = artifacts::require_artifact(service.store, request.parameter("artifact"));
  json::object item = artifact_item(artifact);
  auto reader = service.store.reader();
  const std::string content = store::content_of_artifact(*reader, artifact.id);
  item["content"] = content.empty() ? json::value(nullptr) : parse_json(content).value();
  return resource_response(request, item);
}

http::Response download_artifact(Service& service, const http::Request& request) {
  const store::ArtifactRow artifact = artifacts::require_artifact(service.store, request.parameter("artifact"));
  FileDescriptor opened = artifacts::open_artifact(service.checkpoint_roots, artifact);
  http::Download download{std::move(opened), artifact.size, artifact.name, artifact.sha256};
  return service.downloads.count(request, artifact.id, http::download_response(request, std::move(download)));
}

}  // namespace babelring::api
