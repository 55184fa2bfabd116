#include "lab/probe/probe_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/failure.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {
namespace {

/// Calls range(begin, end) for the bytes of each row, or once for a contiguous tensor.
template <class Range>
void each_range(const ConstTensor& tensor, Range range) {
  if (!tensor || tensor.shape.elements() == 0) return;
  const auto* begin = static_cast<const std::byte*>(tensor.data);
  if (tensor.contiguous()) {
    range(begin, begin + tensor.bytes());
    return;
  }
  const std::size_t size = size_of(tensor.dtype);
  const auto row_bytes = static_cast<std::size_t>(tensor.columns()) * size;
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    const std::byte* at = begin + static_cast<std::size_t>(row * tensor.row_stride) * size;
    range(at, at + row_bytes);
  }
}

}  // namespace

void Origin::add(const Origin& other) {
  records.insert(other.records.begin(), other.records.end());
  left_out = left_out || other.left_out;
}

/// Splits the piece that contains `at` in its middle.
void Writers::cut(const std::byte* at) {
  const auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  pieces_.emplace_hint(next, at, piece->second);
  piece->second.end = at;
}

void Writers::wrote(const ConstTensor& tensor, Origin origin) {
  const auto shared = std::make_shared<const Origin>(std::move(origin));
  each_range(tensor, [&](const std::byte* begin, const std::byte* end) {
    cut(begin);
    cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_.emplace(begin, Piece{end, shared});
  });
}

std::optional<Origin> Writers::of(const ConstTensor& tensor) const {
  std::optional<Origin> all;
  const Origin* added = nullptr;  // the rows of a strided tensor mostly have one origin
  each_range(tensor, [&](const std::byte* begin, const std::byte* end) {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
    for (; piece != pieces_.end() && piece->first < end; ++piece) {
      const Origin* origin = piece->second.origin.get();
      if (!all) all.emplace();
      if (origin != added) all->add(*origin);
      added = origin;
    }
  });
  return all;
}

namespace {

ProbeRole role_of(const ParameterStore& store, std::string_view phase, const OpRun& run, const OpField& field) {
  const std::optional<ParameterElement> place = store.at(field.tensor.data);
  if (place) return place->array == ParameterArray::gradients ? ProbeRole::weight_grad : ProbeRole::weight;
  if (phase == "gradient_sum" || phase == "optimizer") return ProbeRole::other;
  if (run.op == "embedding_backward") return ProbeRole::weight_grad;  // of the rows in use
  const bool backward = phase == "backward" || run.op.find("backward") != std::string_view::npos;
  return backward || field.name == "dlogits" ? ProbeRole::grad_input : ProbeRole::output;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

bool is_written(const OpField& field) {
  return field.access == Access::writes || field.access == Access::updates;
}

}  // namespace

ProbeRecorder::ProbeRecorder(const std::filesystem::path& file, ProbeHeader header, const ProbeOptions& options,
                             const ModelReplica& replica)
    : path_(file),
      file_(file),
      replica_(replica),
      store_(replica.model.parameters()),
      place_(store_),
      layers_("layers", options.layers, store_),
      tensor_globs_(split(options.tensors)) {
  header.layers = options.layers;
  header.tensors = options.tensors;
  file_.write(to_text(to_json(header)) + "\n");
}

void ProbeRecorder::begin_update(std::int64_t update) {
  update_ = update;
  occurrences_.clear();
  place_.begin_update();
  if (std::exchange(begun_, true)) return;
  write_parameters("start", "weight", ProbeRole::weight, store_.masters(), {});
  copy_origins();
}

/// A weight's copy differs from its master by rounding only, so it counts as written by the same record.
void ProbeRecorder::copy_origins() {
  for (const Parameter& parameter : store_.all()) {
    if (const std::optional<Origin> origin = writers_.of(parameter.master)) writers_.wrote(parameter.compute, *origin);
  }
}

/// Micro-batches begin with empty arenas, into which the host writes the batch.
void ProbeRecorder::enter(const char* range) {
  place_.enter(range);
  if (place_.phase() == "micro_batch") writers_.forget_unless([this](const void* address) { return lasts(address); });
}

/// True for memory of weights, gradients and moments.
bool ProbeRecorder::lasts(const void* address) const {
  if (store_.at(address)) return true;
  const std::less<const void*> before;
  for (const Tensor& moment : {replica_.adam.first_moment().values(), replica_.adam.second_moment().values()}) {
    if (!before(address, moment.data) && before(address, moment.as<char>() + moment.bytes())) return true;
  }
  return false;
}

void ProbeRecorder::leave() {
  const bool summed = place_.phase() == "gradient_sum";
  place_.leave();
  if (!summed || !place_.phase().empty() || !holds_whole_gradients()) return;
  std::map<std::size_t, Inputs> inputs;
  for (const Parameter& parameter : store_.all()) inputs[parameter.index] = inputs_of_sum(parameter);
  write_parameters("gradient_sum", "gradient", ProbeRole::weight_grad, store_.gradients(), inputs);
}

void ProbeRecorder::ran(const OpRun& run) {
  const Inputs inputs = inputs_of(run);
  const std::string layer(place_.layer(run).empty() ? run.op : place_.layer(run));
  for (const OpField& field : run.fields) {
    // The optimizer writes parts of flat arrays that depend on the ranks: end_update() records whole parameters.
    if (!is_written(field) || run.op == AdamUpdate::name) continue;
    if (store_.at(field.tensor.data) && parameter_of(store_, field.tensor) == nullptr) {
      writers_.wrote(field.tensor, inputs.origin);  // part of the sum, which leave() records
      continue;
    }
    ProbeRecord record = make_record(layer, run.op, field.name, field.tensor);
    record.role = role_of(store_, place_.phase(), run, field);
    write(std::move(record), field.tensor, inputs);
  }
}

void ProbeRecorder::end_update(bool training) {
  if (!training) return;
  std::map<std::size_t, Inputs> inputs;
  for (const Parameter& parameter : store_.all()) {
    inputs[parameter.index] = inputs_of_step(parameter);
  }
  write_parameters("adam_update", "first_moment", ProbeRole::weight, replica_.adam.first_moment().values(), inputs);
  write_parameters("adam_update", "second_moment", ProbeRole::weight, replica_.adam.second_moment().values(), inputs);
  write_parameters("adam_update", "weight", ProbeRole::weight, store_.masters(), inputs);
  copy_origins();
}

/// The inputs of the sum of a gradient over ranks. The gradients of other ranks have no records here.
ProbeRecorder::Inputs ProbeRecorder::inputs_of_sum(const Parameter& parameter) const {
  Inputs inputs{.origin = writers_.of(parameter.gradient).value_or(Origin())};
  inputs.origin.left_out = inputs.origin.left_out || replica_.communicator.size() > 1;
  return inputs;
}

/// The inputs of the optimizer's step of a parameter. The norm of all gradients, by which it is clipped, is among them.
ProbeRecorder::Inputs ProbeRecorder::inputs_of_step(const Parameter& parameter) const {
  Inputs inputs;
  const auto view = [&](const Tensor& flat) { return flat.row_slice(parameter.offset, parameter.shape.elements()); };
  for (const ConstTensor& read : {ConstTensor(parameter.gradient), ConstTensor(parameter.master),
                                  ConstTensor(view(replica_.adam.first_moment().values())),
                                  ConstTensor(view(replica_.adam.second_moment().values()))}) {
    inputs.origin.add(writers_.of(read).value_or(Origin()));
  }
  const bool sum_unknown = replica_.communicator.size() > 1 && !holds_whole_gradients();
  inputs.origin.left_out = inputs.origin.left_out || sum_unknown || !layers_.takes_all();
  return inputs;
}

/// Records the part of a flat array that belongs to each parameter, and its writer.
void ProbeRecorder::write_parameters(std::string_view op, std::string_view member, ProbeRole role, const Tensor& flat,
                                     const std::map<std::size_t, Inputs>& inputs) {
  for (const Parameter& parameter : store_.all()) {
    const std::size_t offset = static_cast<std::size_t>(parameter.offset) * size_of(flat.dtype);
    const ConstTensor tensor(flat.as<char>() + offset, parameter.shape, flat.dtype);
    ProbeRecord record = make_record(layer_of(parameter), op, fmt::format("{} of {}", member, parameter.name), tensor);
    record.phase = op == "start" ? "start" : op == "gradient_sum" ? "gradient_sum" : "optimizer";
    record.role = role;
    record.micro_batch = -1;
    const auto found = inputs.find(parameter.index);
    write(std::move(record), tensor, found != inputs.end() ? found->second : Inputs());
  }
}

ProbeRecord ProbeRecorder::make_record(std::string_view layer, std::string_view op, std::string_view member,
                                       const ConstTensor& tensor) {
  ProbeRecord record{.update = update_,
                     .micro_batch = place_.micro_batch().value_or(-1),
                     .phase = std::string(place_.phase()),
                     .layer = std::string(layer),
                     .op = std::string(op),
                     .member = std::string(member),
                     .shape = tensor.shape,
                     .dtype = tensor.dtype};
  record.occurrence = occurrences_[record.key()]++;
  return record;
}

void ProbeRecorder::write(ProbeRecord record, const ConstTensor& tensor, const Inputs& inputs) {
  if (!layers_.takes(record.layer)) {
    // Readers of a tensor that is left out inherit all records behind it.
    writers_.wrote(tensor, {.records = inputs.origin.records, .left_out = true});
    return;
  }
  const ConstTensor host = on_host(tensor);
  record.summary = summarize(host);
  record.number = records_++;
  record.inputs.assign(inputs.origin.records.begin(), inputs.origin.records.end());
  record.left_out = inputs.origin.left_out;
  record.batch = inputs.batch;
  const std::string path = fmt::format("{}/{}/{}", record.layer, record.op, record.member);
  if (std::any_of(tensor_globs_.begin(), tensor_globs_.end(), [&](const std::string& glob) {
        return matches_glob(glob, path) || matches_glob(glob, record.layer);
      })) {
    Stored stored{.name = tensor_name(record), .shape = tensor.shape, .dtype = tensor.dtype, .bytes = {}};
    const auto row_bytes = static_cast<std::size_t>(host.columns()) * size_of(host.dtype);
    stored.bytes.resize(host.bytes());
    for (std::int64_t row = 0; row < host.rows() && row_bytes > 0; ++row) {
      std::memcpy(stored.bytes.data() + static_cast<std::size_t>(row) * row_bytes,
                  host.as<char>() + static_cast<std::size_t>(row * host.row_stride) * size_of(host.dtype), row_bytes);
    }
    stored_.push_back(std::move(stored));
  }
  file_.write(to_text(to_json(record)) + "\n");
  writers_.wrote(tensor, {.records = {record.number}});
}

/// The records behind the op's inputs. Lists without a writer belong to the batch.
ProbeRecorder::Inputs ProbeRecorder::inputs_of(const OpRun& run) {
  Inputs inputs;
  for (const OpField& field : run.fields) {
    if (field.access == Access::writes) continue;
    const std::optional<Origin> origin = writers_.of(field.tensor);
    if (origin) inputs.origin.add(*origin);
    const bool of_batch = !origin && field.tensor.dtype == DType::i32 && place_.micro_batch().has_value() &&
                          field.access != Access::updates;
    if (!of_batch || field.tensor.shape.elements() == 0) continue;
    inputs.batch = true;
    const ConstTensor host = field.access == Access::reads_host ? field.tensor : on_host(field.tensor);
    batch_.add(host.data, host.bytes());
  }
  return inputs;
}

/// Where all ranks have one copy of the model, a rank sums only the gradients of its shard.
bool ProbeRecorder::holds_whole_gradients() const {
  return !replica_.sharding.single_copy();
}

/// The tensor itself, or a copy of a device's tensor that is valid until the next call.
ConstTensor ProbeRecorder::on_host(const ConstTensor& tensor) {
  if (replica_.backend.host_memory() || tensor.shape.elements() == 0) return tensor;
  const std::int64_t span = (tensor.rows() - 1) * tensor.row_stride + tensor.columns();
  const ConstTensor whole(tensor.data, Shape{span}, tensor.dtype);
  host_.resize(whole.bytes());
  replica_.backend.download(whole, host_.data());
  ConstTensor copy = tensor;
  copy.data = host_.data();
  return copy;
}

void ProbeRecorder::write_tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Stored& stored : stored_) {
    tensors.push_back({stored.name, ConstTensor(stored.bytes.data(), stored.shape, stored.dtype)});
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype) > size_of(b.tensor.dtype);  // the format's alignment
  });
  write_safetensors(tensors_file(path_), tensors);
}

void ProbeRecorder::finish() {
  if (!tensor_globs_.empty() && stored_.empty()) {
    throw UsageFailure(
        fmt::format("tensors: '{}' matches no tensor; expected a layer or LAYER/OP/MEMBER with * and ?, such as "
                    "encoder.0.*/linear_forward/y",
                    fmt::join(tensor_globs_, ",")));
  }
  if (!stored_.empty()) write_tensors();
  const json::object end = {{"end", true}, {"records", records_}, {"batch", batch_.hex()}};
  file_.write(to_text(end) + "\n");
  file_.commit();
}

}  // namespace babelring
