#pragma once

#include <filesystem>
#include <string_view>

namespace babelring {

/// Where a file system keeps its files, as far as its type tells. A FUSE or 9P file system may be either.
enum class DiskPlace { local, network, unknown };

struct DiskType {
  DiskPlace place = DiskPlace::local;
  std::string_view name;  // "NFS"; empty if local
};

/// The file system with this `f_type` of statfs(2); local if the type is not listed.
DiskType disk_type_of(unsigned magic);

/// The file system of the folder, or of its nearest existing parent. Local if statfs(2) fails.
DiskType disk_type(const std::filesystem::path& folder);

/// The folder, or its nearest existing parent.
std::filesystem::path existing_folder(const std::filesystem::path& wanted);

}  // namespace babelring
