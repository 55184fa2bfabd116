#include <map>
#include <mutex>

#include "base/digest.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/downloads.h"
#include "server/artifacts/tar.h"
#include "server/http/download.h"

namespace babelring::api {

std::shared_ptr<const void> Downloads::begin(const http::Request& request, const std::string& checkpoint) {
  const std::string who = request.caller ? request.caller->token : request.address;
  const std::lock_guard lock(state_->mutex);
  int& active = state_->by_client[who];
  if (active >= max_per_client) {
    throw http::Problem(
        429, "too_many_downloads",
        fmt::format("this {} already has {} active downloads, the max", request.caller ? "token" : "address", active));
  }
  ++active;
  ++state_->by_checkpoint[checkpoint];
  const auto end = [state = state_, who, checkpoint](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_client[who] == 0) state->by_client.erase(who);
    if (--state->by_checkpoint[checkpoint] == 0) state->by_checkpoint.erase(checkpoint);
  };
  return {state_.get(), end};
}

std::shared_ptr<const void> Downloads::hold(const std::string& checkpoint) {
  const std::lock_guard lock(state_->mutex);
  ++state_->by_checkpoint[checkpoint];
  const auto end = [state = state_, checkpoint](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_checkpoint[checkpoint] == 0) state->by_checkpoint.erase(checkpoint);
  };
  return {state_.get(), end};
}

bool Downloads::in_use(const std::string& checkpoint) const {
  const std::lock_guard lock(state_->mutex);
  return state_->by_checkpoint.contains(checkpoint);
}

namespace {

/// Sends the body under one of the token's download slots. A HEAD takes no slot.
http::Response counted(Service& service, const http::Request& request, const store::CheckpointRow& checkpoint,
                       http::Response response) {
  if (request.method != "HEAD" && response.status < 300)
    response.held = service.downloads.begin(request, checkpoint.id);
  return response;
}

http::Response file(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = require_checkpoint(service, request);
  const std::string& name = request.parameter("name");
  // The requested name is only compared; the path comes from the manifest.
  for (const ManifestFile& entry : manifest_of(checkpoint)) {
    if (entry.name != name) continue;
    FileDescriptor opened = open_file(folder_of(service, checkpoint), entry);
    http::Download download{std::move(opened), entry.bytes, entry.name, entry.sha256};
    return counted(service, request, checkpoint, http::download_response(request, std::move(download)));
  }
  throw http::Problem(404, "file_unknown", fmt::format("checkpoint {} has no file '{}'", checkpoint.id, name));
}

/// A tar of all files and SHA256SUMS in a folder with the checkpoint's name, in the order of the manifest. Its bytes
/// depend only on the manifest and the files' content.
http::Response archive(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = require_checkpoint(service, request);
  const auto folder = folder_of(service, checkpoint);
  const auto files = manifest_of(checkpoint);
  const std::int64_t time_s = checkpoint.created_ms / 1000;
  http::Assembly tar{{}, checkpoint.name + ".tar", "application/x-tar", {}};
  for (const ManifestFile& entry : files) {
    tar.body.add(http::tar_header(checkpoint.name + '/' + entry.name, entry.bytes, time_s));
    tar.body.add(http::FileSlice{open_file(folder, entry), 0, entry.bytes});
    tar.body.add(http::tar_padding(entry.bytes));
  }
  const std::string sums = sums_of(files);
  const auto sums_bytes = static_cast<std::int64_t>(sums.size());
  tar.body.add(http::tar_header(checkpoint.name + "/SHA256SUMS", sums_bytes, time_s));
  tar.body.add(sums + http::tar_padding(sums_bytes) + http::tar_end());
  tar.etag =
      fmt::format("\"tar-{}\"", sha256_hex(fmt::format("1 {} {} {}", checkpoint.name, time_s, checkpoint.files)));
  return counted(service, request, checkpoint, http::download_response(request, std::move(tar)));
}

http::Response sums(Service& service, const http::Request& request) {
  return http::text_response(200, "text/plain; charset=utf-8",
                             sums_of(manifest_of(require_checkpoint(service, request))));
}

}  // namespace

void add_download_routes(http::Router& router, Service& service) {
  using http::Request, http::Scope;
  router.add("GET", "/api/v1/checkpoints/{checkpoint}/files/{name}", Scope::read,
             [&service](const Request& request) { return file(service, request); });
  router.add("GET", "/api/v1/checkpoints/{checkpoint}/archive.tar", Scope::read,
             [&service](const Request& request) { return archive(service, request); });
  router.add("GET", "/api/v1/checkpoints/{checkpoint}/SHA256SUMS", Scope::read,
             [&service](const Request& request) { return sums(service, request); });
}

}  // namespace babelring::api
