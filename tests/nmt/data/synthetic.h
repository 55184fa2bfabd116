#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/protobuf.h"
#include "nmt/core/random.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

enum class SyntheticTask { copy, reverse };

struct SyntheticOptions {
  SyntheticTask task = SyntheticTask::copy;
  std::int64_t sentences = 1000;
  int vocabulary_size = 32;  // ids 3 .. size - 1, uniformly distributed
  int min_length = 1;        // tokens, without </s>
  int max_length = 10;
  std::uint64_t seed = 1;
  bool links = false;  // with the alignments
};

/// An in-memory corpus of random sequences and their copies or reversals, which a small model learns in seconds. Pure.
inline Corpus make_synthetic(const SyntheticOptions& options) {
  Random random(derive_seed(options.seed, 0));
  const auto lengths = static_cast<std::uint64_t>(options.max_length - options.min_length) + 1;
  const auto id_count = static_cast<std::uint64_t>(options.vocabulary_size - first_free_id);
  std::vector<std::vector<std::int32_t>> sources(static_cast<std::size_t>(options.sentences));
  std::vector<std::vector<std::int32_t>> targets;
  std::vector<std::vector<std::int32_t>> links;
  targets.reserve(sources.size());
  for (auto& source : sources) {
    source.resize(static_cast<std::size_t>(options.min_length) + random.below(lengths));
    for (std::int32_t& id : source) id = first_free_id + static_cast<std::int32_t>(random.below(id_count));
    if (options.task == SyntheticTask::copy) {
      targets.push_back(source);
    } else {
      targets.emplace_back(source.rbegin(), source.rend());
    }
  }
  for (const auto& source : sources) {
    if (!options.links) break;
    const auto length = static_cast<std::int32_t>(source.size());
    auto& of_pair = links.emplace_back();
    for (std::int32_t i = 0; i < length; ++i) {
      of_pair.insert(of_pair.end(), {options.task == SyntheticTask::copy ? i : length - 1 - i, i});
    }
  }
  return Corpus::from_memory(sources, targets, links);
}

/// A SentencePiece model of which some pieces are replaced: those for which `is_known` is false are control pieces with
/// another text.
inline std::string with_some_pieces(const std::string& model, const std::function<bool(std::int32_t)>& is_known) {
  ProtobufMessage result;
  std::int32_t id = 0;
  for (ProtobufReader fields(model); fields.next();) {
    if (fields.field() == 1 && !is_known(id)) {
      result.message(1, ProtobufMessage().bytes(1, "<none " + std::to_string(id) + ">").number(2, 0).integer(3, 3));
    } else {
      result.bytes(fields.field(), fields.bytes());
    }
    id += fields.field() == 1 ? 1 : 0;
  }
  return result.text();
}

}  // namespace babelring
