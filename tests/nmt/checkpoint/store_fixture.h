#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "base/files.h"
#include "nmt/checkpoint/store.h"

namespace babelring {

/// A temporary folder for a store of checkpoints, and the content of small ones.
class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    write_file_atomically(base_ / "source.model", "spm");
    std::iota(weights_.begin(), weights_.end(), 0.0F);
  }
  ~StoreTest() override { std::filesystem::remove_all(base_); }

  CheckpointContent content(std::int64_t update, bool best = false) const {
    CheckpointContent content{.update = update, .best = best};
    content.weights = {{"w", ConstTensor(weights_.data(), {40, 100}, DType::f32)}};
    content.optimizer = {{"w.m", ConstTensor(weights_.data(), {4000}, DType::f32)}};
    content.state = {{"epoch", 1.5}, {"seed", 7}};
    content.copies = {{"spm.model", base_ / "source.model"}};
    content.texts = {{"config.yaml", "a: 1\n"}};
    content.sacrebleu = 30.25;
    if (best) content.loss = 2.5;
    return content;
  }
  static std::vector<std::string> names(const std::vector<std::filesystem::path>& folders) {
    std::vector<std::string> names;
    for (const std::filesystem::path& folder : folders) names.push_back(folder.filename());
    return names;
  }
  std::filesystem::path best() const { return std::filesystem::read_symlink(folder_ / "best"); }
  static std::size_t entries(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
  }

  const std::filesystem::path base_ = testing::TempDir() + "store_test." + std::to_string(::getpid());
  const std::filesystem::path folder_ = base_ / "checkpoints";
  std::vector<float> weights_ = std::vector<float>(4000);
};

}  // namespace babelring
