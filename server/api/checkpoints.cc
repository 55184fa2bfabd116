#include <sys/stat.h>

#include <algorithm>

#include "nmt/base/records.h"
#include "server/api/answers.h"
#include "server/api/service.h"
#include "server/http/download.h"

namespace babelring::api {
namespace {

store::CheckpointRow require_checkpoint(Service& service, const http::Request& request) {
  const std::string& id = request.parameter("checkpoint");
  auto reader = service.store.reader();
  auto checkpoint = valid_id(id, 'c') ? store::find_checkpoint(*reader, id) : std::nullopt;
  if (!checkpoint) throw http::Problem(404, "checkpoint_unknown", fmt::format("no checkpoint '{}'", id));
  return std::move(*checkpoint);
}

http::Response list(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request);
  const auto before = read_cursor(request);
  const bool removed = request.query_value("removed").value_or("false") == "true";
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto checkpoints = store::list_checkpoints(*reader, run.number, removed, before, limit + 1);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(checkpoints.size()) > limit) {
    checkpoints.pop_back();
    next = make_cursor(checkpoints.back().step, checkpoints.back().number);
  }
  json::array items;
  for (const store::CheckpointRow& checkpoint : checkpoints) items.push_back(checkpoint_item(checkpoint));
  return page_response(request, std::move(items), std::move(next));
}

/// The recorded folder without links and dots. Throws Problem 409 when it lies outside every root, 410 when it is gone.
std::filesystem::path allowed_folder(const Service& service, const store::CheckpointRow& checkpoint) {
  std::error_code error;
  const std::filesystem::path recorded(checkpoint.folder);
  const auto folder = std::filesystem::weakly_canonical(recorded, error);
  const bool below =
      !error && recorded.is_absolute() &&
      std::any_of(service.checkpoint_roots.begin(), service.checkpoint_roots.end(), [&](const auto& root) {
        return std::mismatch(root.begin(), root.end(), folder.begin(), folder.end()).first == root.end();
      });
  if (!below) {
    throw http::Problem(
        409, "outside_roots",
        fmt::format("checkpoint {} was written to {}, which is below no --checkpoint-root of this server",
                    checkpoint.id, checkpoint.folder));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    throw http::Problem(410, "gone", fmt::format("checkpoint {} is no longer on this machine", checkpoint.id));
  }
  return folder;
}

http::Response download(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = require_checkpoint(service, request);
  const std::string& name = request.parameter("name");
  const auto files = parse_json(checkpoint.files);
  // The request's name is only compared; what is opened is the manifest's.
  const auto& entries = files.value().as_array();
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const json::value& file) {
    return file.as_object().at("name").as_string() == name;
  });
  if (entry == entries.end()) {
    throw http::Problem(404, "file_unknown", fmt::format("checkpoint {} has no file '{}'", checkpoint.id, name));
  }
  if (checkpoint.removed) {
    throw http::Problem(410, "removed", fmt::format("checkpoint {} was removed by retention", checkpoint.id));
  }
  const auto folder = allowed_folder(service, checkpoint);
  const json::object& facts = entry->as_object();
  const auto size = facts.at("size").to_number<std::int64_t>();
  http::UniqueFd file = http::open_beneath(folder, std::string(facts.at("name").as_string()));
  struct stat status {};
  if (!file) throw http::Problem(410, "gone", fmt::format("file '{}' is no longer there, or is no regular file", name));
  if (fstat(file.get(), &status) != 0 || status.st_size != size) {
    throw http::Problem(409, "damaged",
                        fmt::format("file '{}' has {} bytes, the manifest says {}", name, status.st_size, size));
  }
  return http::download_response(request, {std::move(file), size, name, std::string(facts.at("sha256").as_string())});
}

http::Response sums(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = require_checkpoint(service, request);
  const auto files = parse_json(checkpoint.files);
  std::string text;
  for (const json::value& file : files.value().as_array()) {
    const json::object& facts = file.as_object();
    text += std::string(facts.at("sha256").as_string()) + "  " + std::string(facts.at("name").as_string()) + '\n';
  }
  return http::text_response(200, "text/plain; charset=utf-8", std::move(text));
}

}  // namespace

void add_checkpoint_routes(http::Router& router, Service& service) {
  using http::Request, http::Scope;
  router.add("GET", "/api/v1/runs/{run}/checkpoints", Scope::read,
             [&service](const Request& request) { return list(service, request); });
  router.add("GET", "/api/v1/checkpoints/{checkpoint}", Scope::read, [&service](const Request& request) {
    return json_response(checkpoint_item(require_checkpoint(service, request)));
  });
  router.add("GET", "/api/v1/checkpoints/{checkpoint}/files/{name}", Scope::read,
             [&service](const Request& request) { return download(service, request); });
  router.add("GET", "/api/v1/checkpoints/{checkpoint}/SHA256SUMS", Scope::read,
             [&service](const Request& request) { return sums(service, request); });
}

}  // namespace babelring::api
