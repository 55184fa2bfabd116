#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nmt/data/gssm/generator.h"

namespace babelring {

/// How hard sequences are to compress: bytes of zlib at level 9 of the tokens as little-endian int64, sequence after
/// sequence, over the number of tokens. The published definition. zlib sees 32 KiB and no latent states: setups of
/// equal difficulty may differ several times over in entropy. Another library makes other bytes: see zlib_library().
double compressed_bytes_per_token(std::span<const std::int32_t> tokens);

/// The difficulty of sequences [0, sequences) of the update of `place`, of `length` tokens each. Throws Failure unless
/// both are positive.
double measure_difficulty(const GssmGenerator& generator, const GssmPlace& place, std::int64_t sequences,
                          std::int64_t length);

/// The difficulty of uniform noise over `vocabulary` tokens, the largest there is, for the same number of tokens.
double noise_difficulty(std::int64_t vocabulary, std::int64_t tokens);

/// The version of the zlib library that this process has loaded: "1.2.13", or "1.3.1.zlib-ng". Figures of difficulty
/// compare only by one library: others differ by several per cent, and may change the order of two graphs.
std::string zlib_library();

}  // namespace babelring
