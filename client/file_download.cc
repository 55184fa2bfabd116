#include "client/file_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/digest.h"
#include "client/api_client.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// A partially downloaded file, open for appending.
class Part {
 public:
  explicit Part(const fs::path& path)
      : path_(path), descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (descriptor_ < 0) fail_now("open");
    size_ = lseek(descriptor_, 0, SEEK_END);
    if (size_ < 0) fail_now("seek");
  }
  ~Part() { ::close(descriptor_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  std::int64_t size() const { return size_; }
  void cut(std::int64_t size) {
    if (ftruncate(descriptor_, size) != 0 || lseek(descriptor_, size, SEEK_SET) < 0) fail_now("truncate");
    size_ = size;
  }
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_now("write");
      size_ += written;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (fsync(descriptor_) != 0) fail_now("fsync");
  }

 private:
  [[noreturn]] void fail_now(const char* what) const { fail("{}: {}: {}", path_.string(), what, std::strerror(errno)); }

  const fs::path path_;
  const int descriptor_;
  std::int64_t size_ = 0;
};

/// True if a 206 response begins at `offset`.
bool begins_at(const HttpResponse& head, std::int64_t offset) {
  return head.header("content-range").starts_with(fmt::format("bytes {}-", offset));
}

/// Requests the missing bytes once. Returns an Error if the connection was lost or the body ended early.
Status fetch(HttpClient& client, const RemoteFile& remote, Part& part, const DownloadProgress& progress) {
  HttpRequest request{.target = remote.target};
  if (part.size() > 0) {
    request.headers = {{"Range", fmt::format("bytes={}-", part.size())}, {"If-Range", '"' + remote.sha256 + '"'}};
  }
  bool begun = false, too_long = false;
  const auto answer = client.send(request, [&](const HttpResponse& head, std::string_view piece) {
    if (!begun && !(head.status == 206 && begins_at(head, part.size())))
      part.cut(0);  // the server sends the whole file
    begun = true;
    too_long = part.size() + static_cast<std::int64_t>(piece.size()) > remote.size;
    if (too_long) return false;
    part.append(piece);
    if (progress) progress(part.size());
    return true;
  });
  if (!answer.ok()) return Error{answer.error()};
  if (!answer->success()) throw ServerRefusal(read_problem(*answer));
  if (too_long) fail("{}: the server sent more than {} bytes", remote.target, remote.size);
  if (part.size() < remote.size) return Error{fmt::format("received {} of {} bytes", part.size(), remote.size)};
  return {};
}

void fetch_all(HttpClient& client, const RemoteFile& remote, const fs::path& path, const DownloadProgress& progress,
               int tries) {
  Part part(path);
  if (part.size() > remote.size) part.cut(0);
  for (int failed = 0; part.size() < remote.size;) {
    const std::int64_t before = part.size();
    const auto done = fetch(client, remote, part, progress);
    if (done.ok()) break;
    failed = part.size() > before ? 1 : failed + 1;
    if (failed >= tries || client.cancelled()) {
      fail("{}: {} (the partial file is kept; repeat the command to resume)", path.filename().string(), done.error());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100 << failed));
  }
  part.sync();
}

}  // namespace

void download_file(HttpClient& client, const RemoteFile& remote, const fs::path& path, const DownloadProgress& progress,
                   int tries) {
  std::string found;
  for (int round = 0; round < 2; ++round) {
    fetch_all(client, remote, path, progress, tries);
    found = sha256_file(path);
    if (found == remote.sha256) return;
    fs::remove(path);  // a mix of two files, or corruption: download again
  }
  fail("{}: SHA-256 is {:.12}…, expected {:.12}… from the checkpoint's manifest", path.filename().string(), found,
       remote.sha256);
}

}  // namespace babelring
