#include "server/artifacts/exports.h"
#include "base/clock.h"
#include "base/digest.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/downloads.h"
#include "server/http/download.h"

namespace babelring::api {
namespace {

using artifacts::Export;
using artifacts::ExportFormat;
using artifacts::ExportState;

artifacts::Exports& exports_of(Service& service) {
  if (service.exports != nullptr) return *service.exports;
  throw http::Problem(503, "no_exporter", "this server exports no checkpoints");
}

/// Throws Problem 400 for a format that `nmt export` does not have.
ExportFormat read_format(const http::Request& request) {
  Body body(request);
  std::string wanted = body.required_text("format", 20);
  const std::string_view only = ExportFormat::only_quantization(wanted);
  ExportFormat format{
      .format = std::move(wanted),
      .quantization = body.text("quantization", 20).value_or(only.empty() ? "float32" : std::string(only)),
      .from = body.text("from", 20).value_or(""),
      .into = body.text("into", 20).value_or("")};
  body.finish();
  const bool is_argos = format.format == "argos";
  if (!is_argos && format.format != "ctranslate2" && only.empty()) {
    Body::refuse("format", fmt::format("found '{}', expected huggingface, ctranslate2, argos, marian or bergamot",
                                       format.format));
  }
  if (!only.empty() && format.quantization != only) {
    Body::refuse("quantization",
                 fmt::format("found '{}', but {} is always {}", format.quantization, format.format, only));
  }
  for (const auto& [name, code] : {std::pair("from", format.from), std::pair("into", format.into)}) {
    if (!is_argos && !code.empty()) Body::refuse(name, "only argos has it");
    if (is_argos && !ExportFormat::named(fmt::format("argos-{}_xx-float32", code))) {
      Body::refuse(name, fmt::format("found '{}', expected a language's code, such as en", code));
    }
  }
  if (is_argos && format.from == format.into) Body::refuse("into", fmt::format("found {} again", format.into));
  if (!ExportFormat::named(format.name())) {
    Body::refuse("quantization", fmt::format("found '{}', expected float32, bfloat16 or int8", format.quantization));
  }
  return format;
}

std::string_view name_of(ExportState state) {
  switch (state) {
    case ExportState::waiting:
      return "waiting";
    case ExportState::running:
      return "running";
    case ExportState::complete:
      return "complete";
    default:
      return "failed";
  }
}

json::object export_item(const Export& made) {
  json::array files;
  for (const ManifestFile& file : made.files) files.push_back({{"name", file.name}, {"size", file.bytes}});
  return {{"checkpoint", made.checkpoint},
          {"name", made.format.name()},
          {"format", made.format.format},
          {"quantization", made.format.quantization},
          {"from", text_or_null(made.format.from)},
          {"into", text_or_null(made.format.into)},
          {"state", name_of(made.state)},
          {"detail", text_or_null(made.detail)},
          {"since", format_rfc3339(made.since_ms)},
          {"bytes", artifacts::bytes_of(made.files)},
          {"files", std::move(files)}};
}

http::Problem no_export(const std::string& checkpoint, const std::string& name) {
  return {404, "export_unknown", fmt::format("checkpoint {} has no export '{}'", checkpoint, name)};
}

Export require_export(Service& service, const store::CheckpointRow& checkpoint, const std::string& name) {
  const auto format = ExportFormat::named(name);
  if (checkpoint.removed) {
    throw http::Problem(410, "removed", fmt::format("checkpoint {} was removed, and its exports", checkpoint.id));
  }
  auto found = format ? exports_of(service).find(checkpoint, *format) : std::nullopt;
  if (!found) throw no_export(checkpoint.id, name);
  return std::move(*found);
}

/// The export that the request names. Throws Problem 404, 409 or 410 unless it is complete.
Export require_complete(Service& service, const http::Request& request, const store::CheckpointRow& checkpoint) {
  Export made = require_export(service, checkpoint, request.parameter("export"));
  if (made.state == ExportState::failed) throw http::Problem(409, "export_failed", made.detail);
  if (made.state != ExportState::complete) {
    throw http::Problem(409, "export_incomplete", fmt::format("the export is {}", name_of(made.state)));
  }
  return made;
}

/// An entity tag for `name`, a file of the export or the archive. An export that is made again has another time.
std::string etag_of(const Export& made, const std::string& name) {
  const std::string text = fmt::format("1 {} {} {} {} {}", made.checkpoint, made.format.name(), made.since_ms,
                                       artifacts::bytes_of(made.files), name);
  return fmt::format("\"export-{}\"", sha256_hex(text));
}

http::Assembly file_of(const Export& made, const ManifestFile& file, const char* type) {
  http::Assembly body{{}, std::filesystem::path(file.name).filename(), type, etag_of(made, file.name)};
  body.body.add(http::FileSlice{artifacts::open_file(made.folder, file), 0, file.bytes});
  return body;
}

/// A tar of all files in a folder `name`.
http::Assembly tar_of(const Export& made, const std::string& name) {
  http::Assembly tar{{}, name + ".tar", "application/x-tar", etag_of(made, "")};
  for (const ManifestFile& file : made.files) {
    tar.body.add(artifacts::tar_header(name + '/' + file.name, file.bytes, made.since_ms / 1000));
    tar.body.add(http::FileSlice{artifacts::open_file(made.folder, file), 0, file.bytes});
    tar.body.add(artifacts::tar_padding(file.bytes));
  }
  tar.body.add(artifacts::tar_end());
  return tar;
}

}  // namespace

http::Response begin_export(Service& service, const http::Request& request) {
  const ExportFormat format = read_format(request);
  const std::string& id = request.parameter("checkpoint");
  auto held = service.downloads.hold(id);  // before it is looked up, so that it stays
  const store::CheckpointRow checkpoint = artifacts::require_loadable(service.store, service.checkpoint_roots, id);
  const Export made = exports_of(service).begin(checkpoint, format, std::move(held), request.owner());
  http::Response response = json_response(export_item(made));
  if (made.state != ExportState::complete) response.status = 202;
  return response;
}

http::Response list_exports(Service& service, const http::Request& request) {
  NamedPage page(request);
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  if (service.exports == nullptr) return page.response();
  for (const auto& [id, formats] : service.exports->formats()) {
    const auto checkpoint = store::find_checkpoint(*reader, id);
    if (!checkpoint || checkpoint->removed || checkpoint->run != run.id) continue;
    for (const auto& [name, format] : formats) {
      const auto made = service.exports->find(*checkpoint, format);
      if (made && page.takes(id + '/' + name)) page.add(export_item(*made));
    }
  }
  return page.response();
}

http::Response show_export(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  return resource_response(request, export_item(require_export(service, checkpoint, request.parameter("export"))));
}

/// The export as one file: a tar of the folder, or the package of argos, which is a zip.
http::Response download_export(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  const Export made = require_complete(service, request, checkpoint);
  const std::string name = fmt::format("{}-{}", checkpoint.name, made.format.name());
  http::Assembly body =
      made.format.format == "argos" ? file_of(made, made.files.at(0), "application/zip") : tar_of(made, name);
  return service.downloads.count(request, checkpoint.id, http::download_response(request, std::move(body)));
}

http::Response download_export_file(Service& service, const http::Request& request) {
  const store::CheckpointRow checkpoint = artifacts::require_checkpoint(service.store, request.parameter("checkpoint"));
  const Export made = require_complete(service, request, checkpoint);
  const auto folder = request.parameters.find("folder");
  const std::string& last = request.parameter("name");
  const std::string name = folder == request.parameters.end() ? last : folder->second + '/' + last;
  // The requested name is only compared; the path comes from the list of files.
  for (const ManifestFile& file : made.files) {
    if (file.name != name) continue;
    return service.downloads.count(request, checkpoint.id,
                                   http::download_response(request, file_of(made, file, "application/octet-stream")));
  }
  throw http::Problem(404, "file_unknown", fmt::format("the export {} has no file '{}'", made.format.name(), name));
}

}  // namespace babelring::api
