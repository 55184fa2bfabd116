#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/names.h"
#include "server/artifacts/lab_files.h"
#include "server/store/checkpoints.h"
#include "server/store/store.h"

/// The files of checkpoints on this machine. Reports of workers are not trusted: folders must lie below the server's
/// roots, and only files of the manifest are opened, beneath their folder and without following links.
namespace babelring::artifacts {

/// The checkpoint with this id. Throws Problem 404.
store::CheckpointRow require_checkpoint(store::Store& store, const std::string& id);
/// A checkpoint that a run can start from: complete, with all files present in their sizes. Its `folder` is canonical.
/// Throws Problem 404, 409, 410 or 422.
store::CheckpointRow require_loadable(store::Store& store, const Roots& roots, const std::string& id);

std::vector<ManifestFile> manifest_of(const store::CheckpointRow& checkpoint);
/// The total size of the files.
std::int64_t bytes_of(const std::vector<ManifestFile>& files);

/// The content of SHA256SUMS, for sha256sum -c. Throws Problem 409 damaged if a name does not fit in a line.
std::string sums_of(const std::vector<ManifestFile>& files);

/// The canonical path of the recorded folder. Throws Problem 409 if it lies outside every root or its name differs from
/// the checkpoint's, 410 if the checkpoint was removed or is gone.
std::filesystem::path folder_of(const Roots& roots, const store::CheckpointRow& checkpoint);

/// Opens a file of the manifest for reading. Throws Problem 410 if it is missing, 409 if its size differs.
FileDescriptor open_file(const std::filesystem::path& folder, const ManifestFile& file);

enum class OnDisk { intact, damaged, gone, elsewhere };
/// Whether all files are present with the sizes of the manifest. `elsewhere`: not below a root, so unknown.
OnDisk inspect(const Roots& roots, const store::CheckpointRow& checkpoint);

/// Whether every file has the digest of the manifest. Reads all files: takes seconds for a large checkpoint.
bool digests_match(const Roots& roots, const store::CheckpointRow& checkpoint);

/// Whether the disks have space for one more checkpoint of each active run, as large as its newest one. Checkpoints
/// outside the roots are ignored: this server cannot check their disks.
bool has_space_for_next(store::Store& store, const Roots& roots);

/// Whether the folder has the file `pinned`.
bool is_marked(const std::filesystem::path& folder);
/// Creates or removes the file `pinned` in the folder. The worker's own retention respects it too. Throws Problem 410
/// if the folder is gone, 409 if it is not writable.
void mark_pinned(const std::filesystem::path& folder, bool pinned);

/// Throws Problem 409 if the folder has a file that is not part of this checkpoint.
void require_removable(const std::filesystem::path& folder, const std::vector<ManifestFile>& files);
/// Removes the checkpoint from disk: renames the folder away first, then deletes its files. Throws Problem 409 like
/// require_removable(), or if the folder is not writable.
void remove_folder(const std::filesystem::path& folder, const std::vector<ManifestFile>& files);
/// Deletes the remains of an interrupted remove_folder(). Throws like folder_of(), and Problem 409.
void sweep_removed(const Roots& roots, const store::CheckpointRow& checkpoint);

}  // namespace babelring::artifacts
