#include "nmt/checkpoint/weights_digest.h"

#include <bit>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/failure.h"
#include "base/json_get.h"

namespace babelring {

namespace {

constexpr std::string_view leaf_prefix("\0", 1), node_prefix("\1", 1);

std::string root_of(std::span<const std::string> leaves) {
  if (leaves.size() == 1) return leaves.front();
  const std::size_t left = std::bit_floor(leaves.size() - 1);
  return Sha256().add(node_prefix).add(root_of(leaves.first(left))).add(root_of(leaves.subspan(left))).hex();
}

}  // namespace

std::string merkle_root(const std::map<std::string, std::string>& parameters) {
  std::vector<std::string> leaves;
  for (const auto& [name, digest] : parameters) {
    leaves.push_back(Sha256().add(leaf_prefix).add(name).add(" ").add(digest).hex());
  }
  return leaves.empty() ? sha256_hex("") : root_of(leaves);
}

WeightsDigest digest_of_weights(std::span<const NamedTensor> weights) {
  WeightsDigest digest;
  for (const NamedTensor& weight : weights) {
    digest.parameters[weight.name] = Sha256().add(weight.tensor.data, weight.tensor.bytes()).hex();
  }
  digest.root = merkle_root(digest.parameters);
  return digest;
}

json::object to_json(const WeightsDigest& digest) {
  json::object parameters;
  for (const auto& [name, sha256] : digest.parameters) parameters[name] = sha256;
  return {{"root", digest.root}, {"parameters", std::move(parameters)}};
}

WeightsDigest weights_digest_from_json(const json::value& value) {
  const json::object* parameters = value.is_object() ? get_object(value.get_object(), "parameters") : nullptr;
  if (parameters == nullptr) fail("member 'weights': expected an object with 'root' and 'parameters'");
  WeightsDigest digest{.parameters = {}, .root = get_text(value.get_object(), "root")};
  for (const auto& member : *parameters) digest.parameters[member.key()] = get_text(*parameters, member.key());
  if (const std::string root = merkle_root(digest.parameters); digest.root != root) {
    fail("member 'weights': root {:.12}…, expected {:.12}… from its parameters", digest.root, root);
  }
  return digest;
}

}  // namespace babelring
