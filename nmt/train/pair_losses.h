#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/files.h"
#include "nmt/data/corpus.h"
#include "nmt/train/update/update_runner.h"

namespace babelring {

struct Suspects;
struct TaskData;

/// The name of the file of a run.
inline constexpr const char* pair_losses_name = "pair_losses.safetensors";

/// The loss of each training pair in each epoch, in a file of safetensors that grows by a tensor an epoch:
///
///     pairs     I32 [pairs, 2]   pair_hash() of each pair, the low 32 bits first
///     epoch_1   F32 [pairs]      mean nll of its target tokens, </s> included, in nats, as the update saw it: with
///     epoch_2   …                dropout and before the step; NaN: not seen yet, or left out by data.max_length
///
/// Metadata: `pairs`, `epochs`, `corpus` and `vocabulary` (digests). 8 bytes a pair and 4 for each epoch. In a mix, the
/// epochs of a pair are those of its corpus. A resumed run writes the same values to the same places again.
class PairLosses {
 public:
  /// Epochs that the header has room for; later ones are not recorded.
  static constexpr std::int64_t max_epochs = 1000;

  /// The corpus must outlive it. Opens nothing. `vocabulary`: digest of the model in whose pieces the corpus is.
  PairLosses(std::filesystem::path file, const Corpus& corpus, std::string vocabulary);

  /// Goes on with the file, unless `anew` or it is of other pairs: then it is kept as NAME.old, and a new one begins,
  /// which reads the whole corpus. Throws Failure.
  void begin(bool anew);
  /// Notes the losses of an update; one that is not finite stays unseen. If the file cannot be written, warns and does
  /// nothing from then on.
  void add(std::span<const PairLoss> losses);

 private:
  bool goes_on();
  void create();
  void add_epochs(std::int64_t count);
  void write_header();
  void write(const void* data, std::size_t bytes, std::int64_t offset) const;

  std::filesystem::path file_;
  const Corpus& corpus_;
  std::string vocabulary_;
  FileDescriptor descriptor_;  // none: not begun, or given up
  std::int64_t epochs_ = 0;
};

/// The losses of a run in `folder`; null without training.pair_losses. `data` must outlive them.
std::unique_ptr<PairLosses> make_pair_losses(const TrainConfig& config, const TaskData& data,
                                             const std::filesystem::path& folder);

/// The pairs of such a file, `fraction` of those seen at least twice, that were learned least: the mean loss over the
/// later half of the epochs that have the pair, over the mean of the earlier half. A wrong translation keeps the loss
/// of a text whose source says nothing, while others fall below it; a hard but right pair falls, too, so that this
/// finds more than the loss itself (docs/measurements/2026-11-30-pair-losses.md). Only pairs whose later loss is at
/// least the mean of all count: an easy pair has nothing to lose. Related: Swayamdipta et al. 2020, "Dataset
/// Cartography". Throws Failure if the file is damaged, or no pair was seen twice.
Suspects find_suspects(const std::filesystem::path& file, double fraction);

}  // namespace babelring
