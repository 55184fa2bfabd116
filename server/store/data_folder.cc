#include "server/store/data_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"

namespace babelring::store {
namespace {

constexpr std::size_t header_bytes = 32, frame_header_bytes = 24;
constexpr std::uint32_t magic = 0x377f0682;  // the lowest bit tells the byte order of the checksum's words

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct Checksum {
  std::uint32_t first = 0, second = 0;
  bool operator==(const Checksum&) const = default;

  static Checksum read(std::string_view bytes, std::size_t at) {
    return {big_endian(bytes, at), big_endian(bytes, at + 4)};
  }
  /// The sum continued over `bytes`, a multiple of eight.
  Checksum over(std::string_view bytes, bool words_are_big_endian) const {
    Checksum sum = *this;
    const auto word = [&](std::size_t at) {
      const std::uint32_t value = big_endian(bytes, at);
      return words_are_big_endian ? value : __builtin_bswap32(value);
    };
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      sum.first += word(at) + sum.second;
      sum.second += word(at + 4) + sum.first;
    }
    return sum;
  }
};

/// Reads the frames of a log one after the other.
class WalFrames {
 public:
  explicit WalFrames(const std::filesystem::path& wal) : in_(wal, std::ios::binary), header_(header_bytes, '\0') {
    if (!in_.read(header_.data(), header_bytes)) header_.clear();
    if (header_.empty()) return;
    sum_ = Checksum{}.over(std::string_view(header_).substr(0, 24), big_endian_words());
    const std::uint32_t page = big_endian(header_, 8);
    if (std::has_single_bit(page) && page >= 512 && page <= 65536) page_bytes_ = page;
  }
  bool has_header() const { return !header_.empty(); }
  bool header_is_sound() const {
    return (big_endian(header_, 0) & ~std::uint32_t{1}) == magic && sum_ == Checksum::read(header_, 24);
  }
  bool next() {
    frame_.resize(frame_header_bytes + page_bytes_);
    return static_cast<bool>(in_.read(frame_.data(), static_cast<std::streamsize>(frame_.size())));
  }
  /// Continues the checksum over the present frame and compares it.
  bool frame_is_sound() {
    const std::string_view frame = frame_;
    sum_ = sum_.over(frame.substr(0, 8), big_endian_words()).over(frame.substr(frame_header_bytes), big_endian_words());
    return salt() == header_salt() && big_endian(frame, 0) != 0 && sum_ == Checksum::read(frame, 16);
  }
  /// Other salts are of an earlier log in the same file.
  std::string_view salt() const { return std::string_view(frame_).substr(8, 8); }
  std::string_view header_salt() const { return std::string_view(header_).substr(16, 8); }
  bool ends_transaction() const { return big_endian(frame_, 4) != 0; }

 private:
  bool big_endian_words() const { return (big_endian(header_, 0) & 1) != 0; }

  std::ifstream in_;
  std::string header_, frame_;
  std::size_t page_bytes_ = 8192;  // of our databases, if the header has none
  Checksum sum_;
};

}  // namespace

std::optional<WalDamage> find_wal_damage(const std::filesystem::path& wal) {
  WalFrames frames(wal);
  if (!frames.has_header()) return std::nullopt;
  WalDamage damage;
  bool sound = frames.header_is_sound();
  std::string salt(frames.header_salt());
  std::int64_t behind = 0;  // frames of this log behind the damaged one
  while (frames.next()) {
    const std::int64_t number = damage.frames + 1;
    if (number == 1 && !sound) salt = frames.salt();  // the header's may be what is damaged
    if (sound) {
      if (frames.frame_is_sound()) {
        damage.frames = number;
        continue;
      }
      sound = false;
      damage.frame = number;
      damage.frames = number;
      if (frames.salt() == salt && frames.ends_transaction()) ++damage.transactions;
      continue;
    }
    ++damage.frames;
    if (frames.salt() != salt) continue;
    ++behind;
    if (frames.ends_transaction()) ++damage.transactions;
  }
  if (sound || behind == 0 || damage.transactions == 0) return std::nullopt;
  return damage;
}

namespace {

constexpr std::string_view running = "running\n", ended = "clean\n";

/// Never leaves the file empty: an empty lock file means an unused folder.
void write_lock_file(int descriptor, std::string_view text) {
  if (pwrite(descriptor, text.data(), text.size(), 0) < 0 ||
      ftruncate(descriptor, static_cast<off_t>(text.size())) != 0 || fsync(descriptor) != 0) {
    fail("data folder: cannot write its lock file: {}", std::strerror(errno));
  }
}

/// True for an unfinished file of a killed process: NAME.tmp.PID of AtomicFile, or .tmp-NAME of a backup or restore.
bool is_unfinished(const std::filesystem::directory_entry& entry) {
  std::error_code error;
  if (entry.symlink_status(error).type() != std::filesystem::file_type::regular) return false;
  const std::string name = entry.path().filename().string();
  if (name.starts_with(".tmp-")) return true;
  constexpr std::string_view mark = ".tmp.";
  const auto at = name.rfind(mark);
  return at != std::string::npos && at + mark.size() < name.size() &&
         name.find_first_not_of("0123456789", at + mark.size()) == std::string::npos;
}

void remove_unfinished(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_unfinished(entry)) found.push_back(entry.path());
  }
  for (const auto& file : found) std::filesystem::remove(file, error);
}

}  // namespace

void refuse_network_disk(const std::filesystem::path& folder) {
  const DiskType disk = disk_type(folder);
  if (disk.kind == FileSystemKind::network) {
    fail("data folder {} is on a network file system ({}); the database needs a local disk (--data)", folder.string(),
         disk.name);
  }
  if (disk.kind == FileSystemKind::unknown) {
    spdlog::warn(
        "data folder {}: its file system ({}) may be on the network, where locks and the write-ahead "
        "log of the database can fail; a local disk is safe (--data)",
        folder.string(), disk.name);
  }
}

DataFolder::DataFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  // Only the owner may access a new folder, because reading the database needs no token.
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder_, error);
  if (error) fail("data folder {}: cannot be created: {}", folder_.string(), error.message());
  if (made) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  folder_ = std::filesystem::canonical(folder_);
  refuse_network_disk(folder_);
  const std::string file = folder_ / "server.lock";
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("open {}: {}", file, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    throw FolderInUse(fmt::format("data folder {} is in use by another server", folder_.string()));
  }
  std::array<char, 16> text{};
  const ssize_t size = pread(descriptor_, text.data(), text.size(), 0);
  used_ = size > 0;
  was_clean_ = used_ && std::string_view(text.data(), static_cast<std::size_t>(size)) == ended;
  for (const auto& each : {folder_, folder_ / "backups"}) remove_unfinished(each);
}

DataFolder::~DataFolder() {
  try {
    if (clean_) write_lock_file(descriptor_, ended);
  } catch (const Failure&) {
    // Harmless: the next start checks the database.
  }
  close(descriptor_);
}

bool DataFolder::has_database() const {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(database(), error);
  return !error && bytes > 0;
}

void DataFolder::require_database(bool anew) const {
  if (has_database()) {
    if (anew) fail("--new-database: {} exists; move it away, or start without --new-database", database().string());
    return;
  }
  std::error_code ignored;
  const char* mark = used_                                                       ? "server.lock"
                     : std::filesystem::exists(folder_ / "admin.token", ignored) ? "admin.token"
                                                                                 : nullptr;
  if (anew || mark == nullptr) return;
  fail(
      "data folder {}: babelring.db is {}, but {} shows that a server has used this folder: restore a backup (server "
      "--data {} --restore FILE), put the file back, or create an empty database with --new-database",
      folder_.string(), std::filesystem::exists(database(), ignored) ? "empty" : "missing", mark, folder_.string());
}

void DataFolder::mark_used() const {
  write_lock_file(descriptor_, running);
}

std::uintmax_t DataFolder::free_bytes() const {
  return std::filesystem::space(folder_).available;
}

}  // namespace babelring::store
