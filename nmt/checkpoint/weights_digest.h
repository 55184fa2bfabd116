#pragma once

#include <map>
#include <span>
#include <string>

#include "base/json.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {

/// SHA-256 digests of a model's weights, which do not depend on the file that contains them.
struct WeightsDigest {
  /// By parameter name: the digest of its f32 elements in row-major order, little-endian.
  std::map<std::string, std::string> parameters;
  /// The root of the Merkle tree over the parameters in the order of their names, as 64 hexadecimal digits: weights
  /// with equal roots are equal. Empty: not known, as in checkpoints of older versions.
  std::string root;

  friend bool operator==(const WeightsDigest&, const WeightsDigest&) = default;
};

/// The root over digests of parameters by name. A leaf is SHA-256(byte 0, NAME, one space, DIGEST); an inner node is
/// SHA-256(byte 1, left, right), where digests are hexadecimal digits and the left part has the largest power of two of
/// leaves below their number.  Tree: RFC 6962, section 2.1.
std::string merkle_root(const std::map<std::string, std::string>& parameters);

/// The digests of contiguous tensors in host memory.
WeightsDigest digest_of_weights(std::span<const NamedTensor> weights);

/// {"root": "…", "parameters": {NAME: DIGEST, …}}
json::object to_json(const WeightsDigest& digest);
/// Throws Failure if members are missing or the root is not that of the parameters.
WeightsDigest weights_digest_from_json(const json::value& value);

}  // namespace babelring
