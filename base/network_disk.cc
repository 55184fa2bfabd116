#include "base/network_disk.h"

#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace babelring {
namespace {

struct Known {
  unsigned magic;
  DiskType type;
};

/// statfs(2); linux/magic.h
constexpr std::array<Known, 8> known_types = {{{0x6969, {DiskPlace::network, "NFS"}},
                                               {0xff534d42, {DiskPlace::network, "CIFS"}},
                                               {0xfe534d42, {DiskPlace::network, "SMB2"}},
                                               {0x517b, {DiskPlace::network, "SMB"}},
                                               {0x0bd00bd0, {DiskPlace::network, "Lustre"}},
                                               {0x00c36400, {DiskPlace::network, "Ceph"}},
                                               {0x65735546, {DiskPlace::unknown, "FUSE"}},
                                               {0x01021997, {DiskPlace::unknown, "9P"}}}};

}  // namespace

std::filesystem::path existing_folder(const std::filesystem::path& wanted) {
  std::filesystem::path folder = std::filesystem::absolute(wanted).lexically_normal();
  std::error_code error;
  while (!std::filesystem::is_directory(folder, error) && folder != folder.parent_path()) folder = folder.parent_path();
  return folder;
}

DiskType disk_type(const std::filesystem::path& folder) {
  struct statfs status{};
  if (::statfs(existing_folder(folder).c_str(), &status) != 0) return {};
  return disk_type_of(static_cast<unsigned>(status.f_type));
}

DiskType disk_type_of(unsigned magic) {
  const auto* found =
      std::find_if(known_types.begin(), known_types.end(), [&](const Known& one) { return one.magic == magic; });
  return found == known_types.end() ? DiskType() : found->type;
}

}  // namespace babelring
