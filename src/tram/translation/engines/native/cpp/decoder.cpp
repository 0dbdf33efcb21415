#include "decoder.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tram {

Decoding::Decoding(const Model& model, const float* states, const int32_t* lengths, int64_t sentences,
                   const float* const* memories, std::vector<int32_t> banned, int32_t end)
    : model_(model), scratch_(model), kept_(model.decoder.layers.size()), banned_(std::move(banned)), end_(end) {
  const int64_t d = model.sizes.d_model;
  int64_t tokens = 0;
  for (int64_t i = 0; i < sentences; i++) {
    if (lengths[i] < 0) throw std::invalid_argument("a sentence of negative length");
    source_.push_back({tokens, lengths[i]});
    origin_.push_back(static_cast<int32_t>(i));
    tokens += lengths[i];
    longest_ = std::max<int64_t>(longest_, lengths[i]);
  }
  if (end_ < 0 || end_ >= model.sizes.vocabulary) throw std::out_of_range("an end beyond the vocabulary");
  size_t unit = 0;
  for (size_t number = 0; number < kept_.size(); number++) {
    const Layer& layer = model.decoder.layers[number];
    float* keys = kept_[number].source.room(tokens * 2 * d);
    layer.cross_key_value.run(model.kernels, scratch_.work, states, tokens, d, keys, 2 * d);
    if (!layer.memory) continue;
    const int64_t rows = sentences * model.sizes.slots;
    float* memory = kept_[number].memory.room(rows * 2 * d);
    layer.memory->output_key_value.run(model.kernels, scratch_.work, memories[unit++], rows, d, memory, 2 * d);
  }
}

void Decoding::step(const int32_t* tokens, const int32_t* parents, int64_t width) {
  const int64_t d = model_.sizes.d_model, rows = sentences() * width;
  if (width < 1 || (!parents && width != width_)) throw std::invalid_argument("hypotheses without parents");
  std::vector<int32_t> lines(rows * (steps_ + 1)), row_origin(rows);
  for (int64_t row = 0; row < rows; row++) {
    const int64_t sentence = row / width, parent = parents ? parents[row] : row % width;
    if (parent < 0 || parent >= width_) throw std::out_of_range("a parent that does not exist");
    int32_t* to = lines.data() + row * (steps_ + 1);
    if (steps_) std::memcpy(to, lines_.data() + (sentence * width_ + parent) * steps_, steps_ * sizeof(int32_t));
    to[steps_] = static_cast<int32_t>(used_ + row);
    row_origin[row] = origin_[sentence];
  }
  const std::vector<int64_t> ids(tokens, tokens + rows);
  const std::vector<int32_t> places(rows, static_cast<int32_t>(steps_));
  embed(model_, model_.decoder, ids.data(), places.data(), rows, x_.room(rows * d));
  lines_ = std::move(lines);  // only now: a token that is refused changes nothing
  row_origin_ = std::move(row_origin);
  width_ = width;
  steps_++;
  for (size_t number = 0; number < kept_.size(); number++) layer_step(number, rows);
  if (model_.decoder.norm) model_.decoder.norm.run(model_.kernels, x_.data(), x_.data(), rows);
  used_ += rows;
}

void Decoding::layer_step(size_t number, int64_t rows) {
  const Kernels& kernels = model_.kernels;
  const Layer& layer = model_.decoder.layers[number];
  Kept& kept = kept_[number];
  const int64_t d = model_.sizes.d_model, heads = model_.sizes.heads;
  float* x = x_.data();
  float* attended = scratch_.attended.room(rows * d);
  float* scores = scratch_.scores.room(heads * std::max(longest_, steps_));

  const float* h = before_sublayer(model_, scratch_, layer.self_norm, x, rows);
  kept.past.resize((used_ + rows) * 3 * d);
  float* past = kept.past.data();
  float* own = past + used_ * 3 * d;
  layer.qkv.run(kernels, scratch_.work, h, rows, d, own, 3 * d);
  for (int64_t row = 0; row < rows; row++)
    kernels.attend(Query{own + row * 3 * d, past + d, past + 2 * d, 3 * d, lines_.data() + row * steps_, steps_, heads,
                         d / heads, scores, attended + row * d});
  layer.self_output.run(kernels, scratch_.work, attended, rows, d, x, d, Then::add);
  after_sublayer(model_, layer.self_norm, x, rows);

  if (layer.memory) {
    kept.update_inputs.resize((used_ + rows) * d);
    float* inputs = kept.update_inputs.data() + used_ * d;
    if (layer.memory->input_norm)
      layer.memory->input_norm.run(kernels, x, inputs, rows);
    else
      std::memcpy(inputs, x, rows * d * sizeof(float));
    read_memory(model_, scratch_, *layer.memory, inputs, kept.memory.data(), row_origin_, rows, x);
    attended = scratch_.attended.room(rows * d);
    scores = scratch_.scores.room(heads * std::max(longest_, steps_));
  }

  h = before_sublayer(model_, scratch_, layer.cross_norm, x, rows);
  float* query = scratch_.query.room(rows * d);
  layer.cross_query.run(kernels, scratch_.work, h, rows, d, query, d);
  for (int64_t row = 0; row < rows; row++) {
    const Sentence& source = source_[row_origin_[row]];
    const float* keys = kept.source.data() + source.first * 2 * d;
    kernels.attend(Query{query + row * d, keys, keys + d, 2 * d, nullptr, source.count, heads, d / heads, scores,
                         attended + row * d});
  }
  layer.cross_output.run(kernels, scratch_.work, attended, rows, d, x, d, Then::add);
  after_sublayer(model_, layer.cross_norm, x, rows);
  feed_forward(model_, scratch_, layer.feed_forward, layer.feed_forward_norm, x, rows);
}

void Decoding::logits(float* values) {
  const int64_t rows = sentences() * width_, d = model_.sizes.d_model;
  model_.output.linear.run(model_.kernels, scratch_.work, x_.data(), rows, d, values, model_.sizes.vocabulary);
}

void Decoding::best(const float* scores, const uint8_t* must_end, int64_t wanted, Total* found) {
  const int64_t d = model_.sizes.d_model;
  const auto per_row = static_cast<int32_t>(std::min<int64_t>(wanted, model_.sizes.vocabulary));
  const Linear& output = model_.output.linear;
  model_.output.scan(model_.kernels, scratch_.work, x_.data(), sentences() * width_, per_row, banned_, scan_);
  constexpr float impossible = -std::numeric_limits<float>::infinity();
  std::vector<Total> all;
  for (int64_t sentence = 0; sentence < sentences(); sentence++) {
    all.clear();
    for (int64_t hypothesis = 0; hypothesis < width_; hypothesis++) {
      const int64_t row = sentence * width_ + hypothesis;
      const RowScan& scan = scan_.rows[row];
      float base = scores[row] - (scan.max + std::log(scan.sum));
      if (!(scan.damage == 0) || std::isnan(base)) base = impossible;  // logits that are no numbers
      if (must_end && must_end[sentence]) {
        // One column: its panel is computed again
        const int64_t panel = model_.kernels.panel, at = end_ / panel;
        Buffer<float> room;
        float* line = room.room(panel);
        Workspace work;
        output.prepare(model_.kernels, work, x_.data() + row * d, 1, d);
        output.run_panels(model_.kernels, work, x_.data() + row * d, 1, d, line, panel, Then::store, at, at + 1);
        all.push_back(Total{line[end_ % panel] + base, static_cast<int32_t>(hypothesis), end_});
        continue;
      }
      for (int32_t i = 0; i < scan.count; i++) {
        const bool banned = scan.best[i].value <= -1e29f;
        all.push_back(Total{banned ? impossible : scan.best[i].value + base, static_cast<int32_t>(hypothesis),
                            scan.best[i].id});
      }
    }
    const auto count = std::min<int64_t>(wanted, static_cast<int64_t>(all.size()));
    std::stable_sort(all.begin(), all.end(), [](const Total& a, const Total& b) { return a.total > b.total; });
    for (int64_t i = 0; i < wanted; i++) found[sentence * wanted + i] = i < count ? all[i] : Total{impossible, 0, 0};
  }
}

void Decoding::select(const int32_t* rows, int64_t count) {
  std::vector<int32_t> origin(count), lines(count * width_ * steps_);
  for (int64_t i = 0; i < count; i++) {
    if (rows[i] < 0 || rows[i] >= sentences()) throw std::out_of_range("a sentence that does not exist");
    origin[i] = origin_[rows[i]];
    std::memcpy(lines.data() + i * width_ * steps_, lines_.data() + rows[i] * width_ * steps_,
                width_ * steps_ * sizeof(int32_t));
  }
  origin_ = std::move(origin);
  lines_ = std::move(lines);
}

void Decoding::update_inputs(int64_t row, int64_t hypothesis, float* const* values) const {
  if (row < 0 || row >= sentences() || hypothesis < 0 || hypothesis >= width_)
    throw std::out_of_range("a hypothesis that does not exist");
  update_inputs(line(row, hypothesis), steps_, values);
}

void Decoding::update_inputs(const int32_t* line, int64_t steps, float* const* values) const {
  const int64_t d = model_.sizes.d_model;
  size_t unit = 0;
  for (size_t number = 0; number < kept_.size(); number++) {
    if (!model_.decoder.layers[number].memory) continue;
    for (int64_t step = 0; step < steps; step++)
      std::memcpy(values[unit] + step * d, kept_[number].update_inputs.data() + line[step] * d, d * sizeof(float));
    unit++;
  }
}

}  // namespace tram
