#include "server/http/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "base/text.h"
#include "server/http/fields.h"
#include "server/http/reply.h"

namespace babelring::http {
namespace {

std::string header_quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '_' : c;
  return text + '"';
}

}  // namespace

FileDescriptor open_beneath(const std::filesystem::path& folder, const std::string& relative) {
  const FileDescriptor root(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return {};
  struct open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // do not block on a FIFO
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  FileDescriptor file(static_cast<int>(syscall(SYS_openat2, root.get(), relative.c_str(), &how, sizeof how)));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

namespace {

/// Status (200, 206, 304 or 416) and headers of a download. Sets `range` to the requested part. Throws Problem 412.
Response head_of(const RequestMessage& request, const std::string& etag, std::int64_t size, RangeRequest& range) {
  if (!if_match_holds(request.header("if-match"), etag)) {
    throw Problem(412, "changed",
                  fmt::format("the If-Match header does not match; the current entity tag is {}", etag));
  }
  Response response;
  response.set("ETag", etag).set("Accept-Ranges", "bytes").set("Cache-Control", "no-cache");
  if (lists_etag(request.header("if-none-match"), etag)) {
    response.status = 304;
    return response;
  }
  const std::string_view only_if = request.header("if-range");
  const bool wants_part = only_if.empty() || only_if == etag;
  range = parse_range(wants_part ? request.header("range") : std::string_view(), size);
  if (range.kind == RangeRequest::Kind::unsatisfiable) {
    response.status = 416;
    response.set("Content-Range", fmt::format("bytes */{}", size));
  } else if (range.kind == RangeRequest::Kind::part) {
    response.status = 206;
    response.set("Content-Range", fmt::format("bytes {}-{}/{}", range.first, range.first + range.length - 1, size));
  }
  return response;
}

}  // namespace

Response download_response(const RequestMessage& request, Download download) {
  RangeRequest range;
  Response response = head_of(request, '"' + download.sha256_hex + '"', download.size, range);
  if (response.status >= 300) return response;
  response.set("Content-Type", "application/octet-stream");
  response.set("Content-Disposition", "attachment; filename=" + header_quoted(download.name));
  response.set("Repr-Digest", "sha-256=:" + base64_of_hex(download.sha256_hex) + ":");
  response.body = FileSlice{std::move(download.file), range.first, range.length};
  return response;
}

Response download_response(const RequestMessage& request, Assembly assembly) {
  RangeRequest range;
  Response response = head_of(request, assembly.etag, assembly.body.length(), range);
  if (response.status >= 300) return response;
  response.set("Content-Type", assembly.content_type);
  response.set("Content-Disposition", "attachment; filename=" + header_quoted(assembly.name));
  assembly.body.cut(range.first, range.length);
  response.body = std::move(assembly.body);
  return response;
}

}  // namespace babelring::http
