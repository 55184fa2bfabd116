#include "nmt/train/pair_losses.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/data/prepare.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {

namespace {

constexpr std::int64_t header_bytes = 128 << 10;  // with its length; an epoch takes at most 110
constexpr std::size_t values_at_once = 1 << 16;   // values written at a time

std::string epoch_name(std::int64_t epoch) {
  return fmt::format("epoch_{}", epoch + 1);
}

json::object entry_of(const char* dtype, json::array shape, std::int64_t begin, std::int64_t end) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", json::array{begin, end}}};
}

/// Where the losses of an epoch begin in the file.
std::int64_t offset_of(std::int64_t pairs, std::int64_t epoch) {
  return header_bytes + pairs * (8 + 4 * epoch);
}

/// The metadata of a file.
struct Head {
  std::int64_t pairs = 0, epochs = 0;
  std::string corpus, vocabulary;
  std::int64_t bytes = 0;  // of the file
};

/// None if the file is not one of PairLosses. It may end in an epoch that is not in its header.
std::optional<Head> read_head(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (std::ssize(bytes) < header_bytes) return std::nullopt;
  const void* text = bytes.data() + 8;
  const auto header = parse_json({static_cast<const char*>(text), header_bytes - 8});
  const json::value* metadata =
      header.ok() && header->is_object() ? header->get_object().if_contains("__metadata__") : nullptr;
  if (metadata == nullptr || !metadata->is_object()) return std::nullopt;
  const auto value_of = [&](const char* key) {
    const json::value* value = metadata->get_object().if_contains(key);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
  };
  const auto pairs = parse_decimal<std::int64_t>(value_of("pairs"));
  const auto epochs = parse_decimal<std::int64_t>(value_of("epochs"));
  if (!pairs || !epochs || *pairs < 0 || *epochs < 0 || *epochs > PairLosses::max_epochs) return std::nullopt;
  return Head{*pairs, *epochs, value_of("corpus"), value_of("vocabulary"), std::ssize(bytes)};
}

}  // namespace

PairLosses::PairLosses(std::filesystem::path file, const Corpus& corpus, std::string vocabulary)
    : file_(std::move(file)), corpus_(corpus), vocabulary_(std::move(vocabulary)) {}

void PairLosses::begin(bool anew) {
  if (std::error_code error; std::filesystem::exists(file_, error)) {
    if (!anew && goes_on()) return;
    const std::filesystem::path old = file_.string() + ".old";
    spdlog::info("training.pair_losses: {} is {}; it is kept as {}", file_.string(),
                 anew ? "that of an earlier training" : "no whole file of these pairs", old.filename().string());
    std::filesystem::rename(file_, old);
  }
  create();
}

/// Opens the file of an earlier attempt and cuts off an epoch that a crash has left unfinished.
bool PairLosses::goes_on() {
  const std::optional<Head> head = read_head(file_);
  if (!head || head->pairs != corpus_.sentences() || head->corpus != corpus_.digest() ||
      head->vocabulary != vocabulary_) {
    return false;
  }
  const std::int64_t size = offset_of(head->pairs, head->epochs);
  if (head->bytes < size) return false;
  descriptor_ = FileDescriptor(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor_ || ftruncate(descriptor_.get(), size) != 0) {
    fail("training.pair_losses: cannot open {}: {}", file_.string(), std::generic_category().message(errno));
  }
  epochs_ = head->epochs;
  return true;
}

void PairLosses::create() {
  descriptor_ = FileDescriptor(open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor_) {
    fail("training.pair_losses: cannot create {}: {}", file_.string(), std::generic_category().message(errno));
  }
  epochs_ = 0;
  const std::int64_t pairs = corpus_.sentences();
  std::vector<std::uint32_t> words;
  for (std::int64_t first = 0; first < pairs; first += std::ssize(words) / 2) {
    words.clear();
    for (std::int64_t i = first; i < std::min(pairs, first + static_cast<std::int64_t>(values_at_once)); ++i) {
      const std::uint64_t hash = pair_hash(corpus_.source(i), corpus_.target(i));
      words.insert(words.end(), {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)});
    }
    write(words.data(), words.size() * sizeof(words[0]), header_bytes + 8 * first);
  }
  write_header();
}

void PairLosses::add(std::span<const PairLoss> losses) try {
  if (!descriptor_) return;
  for (const PairLoss& loss : losses) {
    if (loss.epoch >= max_epochs || !std::isfinite(loss.nll)) continue;
    if (loss.epoch >= epochs_) add_epochs(loss.epoch + 1);
    const auto value = static_cast<float>(loss.nll);
    write(&value, sizeof(value), offset_of(corpus_.sentences(), loss.epoch) + 4 * loss.pair);
  }
} catch (const Failure& failure) {
  spdlog::warn("{}; the run goes on without it", failure.what());
  descriptor_ = {};
}

/// The header comes last: until then the file is the old one with something behind it.
void PairLosses::add_epochs(std::int64_t count) {
  const std::vector<float> unseen(values_at_once, std::numeric_limits<float>::quiet_NaN());
  const std::int64_t end = offset_of(corpus_.sentences(), count);
  for (std::int64_t at = offset_of(corpus_.sentences(), epochs_); at < end;) {
    const std::int64_t bytes = std::min(end - at, static_cast<std::int64_t>(values_at_once * sizeof(float)));
    write(unseen.data(), static_cast<std::size_t>(bytes), at);
    at += bytes;
  }
  epochs_ = count;
  write_header();
}

void PairLosses::write_header() {
  const std::int64_t pairs = corpus_.sentences();
  json::object header{{"__metadata__", json::object{{"pairs", std::to_string(pairs)},
                                                    {"epochs", std::to_string(epochs_)},
                                                    {"corpus", corpus_.digest()},
                                                    {"vocabulary", vocabulary_}}},
                      {"pairs", entry_of("I32", {pairs, 2}, 0, 8 * pairs)}};
  for (std::int64_t epoch = 0; epoch < epochs_; ++epoch) {
    const std::int64_t begin = offset_of(pairs, epoch) - header_bytes;
    header[epoch_name(epoch)] = entry_of("F32", {pairs}, begin, begin + 4 * pairs);
  }
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((header_bytes - 8) >> (8 * i) & 0xff);
  text += to_text(header);
  if (std::ssize(text) > header_bytes) fail("training.pair_losses: header of {} bytes", text.size());
  text.resize(static_cast<std::size_t>(header_bytes), ' ');
  write(text.data(), text.size(), 0);
}

void PairLosses::write(const void* data, std::size_t bytes, std::int64_t offset) const {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(descriptor_.get(), next, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      fail("training.pair_losses: cannot write {}: {}", file_.string(), std::generic_category().message(errno));
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
    offset += written;
  }
}

std::unique_ptr<PairLosses> make_pair_losses(const TrainConfig& config, const TaskData& data,
                                             const std::filesystem::path& folder) {
  if (!config.training.pair_losses) return nullptr;
  return std::make_unique<PairLosses>(folder / pair_losses_name, *data.corpus, data.vocabulary->digest());
}

namespace {

/// How a pair was learned.
struct Learned {
  double later = 0, kept = 0;  // mean loss of the later half of its epochs; that over the earlier half's
  std::int64_t pair = 0;
};

Learned learned_of(const std::vector<double>& losses, std::int64_t pair) {
  const auto half = static_cast<std::ptrdiff_t>(losses.size() / 2);
  const auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  const double later = mean(losses.begin() + half, losses.end());
  return {.later = later, .kept = later / mean(losses.begin(), losses.begin() + half), .pair = pair};
}

}  // namespace

Suspects find_suspects(const std::filesystem::path& file, double fraction) {
  const SafetensorsReader reader(file);
  const std::optional<Head> head = read_head(file);
  if (!head) fail("{}: expected a file of training.pair_losses", file.string());
  const std::int64_t pairs = head->pairs;
  const auto* words = static_cast<const std::uint32_t*>(reader.tensor("pairs", {pairs, 2}, DType::i32).data);
  std::vector<const float*> epochs;
  for (std::int64_t epoch = 0; epoch < head->epochs; ++epoch) {
    epochs.push_back(static_cast<const float*>(reader.tensor(epoch_name(epoch), {pairs}).data));
  }
  std::vector<Learned> all;
  std::vector<double> losses;
  double later = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    losses.clear();
    for (const float* epoch : epochs) {
      if (std::isfinite(epoch[pair])) losses.push_back(static_cast<double>(epoch[pair]));
    }
    if (losses.size() < 2) continue;
    all.push_back(learned_of(losses, pair));
    later += all.back().later;
  }
  if (all.empty())
    fail("{}: found {}, expected pairs with losses of at least 2", file.string(),
         counted(static_cast<double>(head->epochs), "epoch"));
  const auto wanted = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(all.size())));
  const double mean = later / static_cast<double>(all.size());
  std::erase_if(all, [&](const Learned& one) { return one.later < mean; });
  std::stable_sort(all.begin(), all.end(), [](const Learned& a, const Learned& b) { return a.kept > b.kept; });
  all.resize(std::min(all.size(), wanted));
  Suspects suspects{.file = file, .vocabulary = head->vocabulary, .fraction = fraction, .kept = {}};
  for (const Learned& one : all) {
    const std::uint64_t hash = words[2 * one.pair] | std::uint64_t{words[2 * one.pair + 1]} << 32;
    suspects.kept[hash] = one.kept;
  }
  return suspects;
}

}  // namespace babelring
