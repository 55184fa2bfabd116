#include "base/digest.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/tar.h"
#include "server/http/download.h"

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

}  // namespace babelring::api
