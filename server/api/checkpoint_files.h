#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "server/api/service.h"
#include "server/http/unique_fd.h"
#include "server/store/rows.h"

/// The files of checkpoints on this machine. What a worker reports of them is not trusted: folders must lie below the
/// service's roots, names are those of the manifest and are opened beneath their folder without following links.
namespace babelring::api {

/// The checkpoint named by {checkpoint}. Throws Problem 404.
store::CheckpointRow require_checkpoint(Service& service, const http::Request& request);
/// The checkpoint of that id to begin a run with: complete, its files there with their sizes, `folder` without links.
/// Throws Problem 404, 409, 410 or 422.
store::CheckpointRow require_loadable(Service& service, const std::string& id);

struct ManifestFile {
  std::string name;
  std::int64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits
};
std::vector<ManifestFile> manifest_of(const store::CheckpointRow& checkpoint);

/// The content of SHA256SUMS, for sha256sum -c. Throws Problem 409 damaged if a name does not fit into a line.
std::string sums_of(const std::vector<ManifestFile>& files);

/// The recorded folder without links and dots. Throws Problem 409 when it lies outside every root or is not named as
/// the checkpoint, 410 when the checkpoint was removed or is gone.
std::filesystem::path folder_of(const Service& service, const store::CheckpointRow& checkpoint);

/// One file of the manifest for reading. Throws Problem 410 if it is not there, 409 if its size is another.
http::UniqueFd open_file(const std::filesystem::path& folder, const ManifestFile& file);

enum class OnDisk { intact, damaged, gone, elsewhere };
/// Are all files there with the sizes of the manifest? `elsewhere`: not below a root, so this server cannot tell.
OnDisk look_at(const Service& service, const store::CheckpointRow& checkpoint);

/// Has every file the digest of the manifest? Reads them all: seconds for a large checkpoint.
bool digests_match(const Service& service, const store::CheckpointRow& checkpoint);

/// Is there room for one more checkpoint as large as the newest of each run that is not over? Those outside the roots
/// count as well: their disks are not this server's to judge.
bool have_room_for_next(Service& service);

/// Is there a file `pinned` in the folder?
bool is_marked(const std::filesystem::path& folder);
/// Makes or removes the file `pinned` in the folder, which the worker's own retention respects too. Throws Problem 410
/// if the folder is gone, 409 if it cannot be written.
void mark_pinned(const std::filesystem::path& folder, bool pinned);

/// Throws Problem 409 where the folder has a file that this checkpoint has not.
void require_removable(const std::filesystem::path& folder, const std::vector<ManifestFile>& files);
/// Removes the checkpoint from disk: its folder disappears at once, then its files go. Throws Problem 409 as above, or
/// where the folder cannot be changed.
void remove_folder(const std::filesystem::path& folder, const std::vector<ManifestFile>& files);
/// What an interrupted remove_folder() has left of a checkpoint that is gone. Throws as folder_of() and Problem 409.
void sweep_removed(const Service& service, const store::CheckpointRow& checkpoint);

}  // namespace babelring::api
