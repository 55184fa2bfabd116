#pragma once

#include <cstdint>
#include <string>

namespace babelring {

/// A file of a prepared folder or a checkpoint, as listed in its manifest.
struct ManifestFile {
  std::string name;  // relative to the folder
  std::int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

}  // namespace babelring
