#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/core/shared_file.h"

namespace babelring {

/// Zeroed memory of `bytes` bytes that the ranks of this host have in common if they ask for equal sizes and keys. The
/// first of them runs prepare() in it before it invites the others. Null if this rank is the only one, or cannot share
/// memory, which is logged. Works with any all-reduce algorithm and any numbers of ranks. Collective.
std::shared_ptr<SharedFile> share_on_host(Communicator& communicator, std::size_t bytes, const std::string& key,
                                          const std::function<void(char*)>& prepare);

}  // namespace babelring
