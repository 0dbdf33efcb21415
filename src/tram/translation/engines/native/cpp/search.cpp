#include "search.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace tram {
namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();

// The unfinished hypotheses of the sentences that are not done yet.
struct Beams {
  std::vector<int32_t> sentences;  // the sentence of each row
  std::vector<int32_t> last, parents;
  std::vector<float> scores;
  std::vector<std::vector<int32_t>> tokens;  // of each hypothesis
};

void keep_best(std::vector<Hypothesis>& found, Hypothesis&& fresh, int64_t beam) {
  auto place = found.end();
  while (place != found.begin() && (place - 1)->score < fresh.score) --place;
  found.insert(place, std::move(fresh));
  if (static_cast<int64_t>(found.size()) > beam) found.pop_back();
}

}  // namespace

std::vector<std::vector<Hypothesis>> search(Decoding& decoding, const SearchSettings& settings, int32_t end) {
  const int64_t n = decoding.sentences();
  const int64_t vocabulary = decoding.model().sizes.vocabulary, beam = std::min(settings.beam, vocabulary);
  if (beam < 1 || settings.start.empty()) throw std::invalid_argument("a search without hypotheses or a start");
  std::vector<std::vector<Hypothesis>> found(n);
  for (size_t i = 0; i + 1 < settings.start.size(); i++) {
    const std::vector<int32_t> same(n, settings.start[i]);
    decoding.step(same.data(), nullptr, 1);
  }
  Beams beams;
  for (int64_t i = 0; i < n; i++) beams.sentences.push_back(static_cast<int32_t>(i));
  beams.last.assign(n, settings.start.back());
  beams.scores.assign(n, 0.0f);
  beams.tokens.resize(n);
  std::vector<Total> totals;
  std::vector<uint8_t> must_end;
  for (int64_t length = 1, width = 1; !beams.sentences.empty(); length++) {
    decoding.step(beams.last.data(), beams.parents.empty() ? nullptr : beams.parents.data(), width);
    const auto rows = static_cast<int64_t>(beams.sentences.size());
    // One candidate is enough in greedy search: if it is the end, no other can be better
    const int64_t wanted = beam == 1 ? 1 : std::min(2 * beam, width * vocabulary);
    totals.resize(rows * wanted);
    must_end.assign(rows, 0);
    for (int64_t row = 0; row < rows; row++) must_end[row] = settings.limits[beams.sentences[row]] <= length;
    decoding.best(beams.scores.data(), must_end.data(), wanted, totals.data());

    const double divisor = std::pow(static_cast<double>(length), settings.penalty);
    Beams next;
    std::vector<int32_t> stay;
    for (int64_t row = 0; row < rows; row++) {
      const int32_t sentence = beams.sentences[row];
      std::vector<Hypothesis>& own = found[sentence];
      const Total* candidates = totals.data() + row * wanted;
      for (int64_t i = 0; i < std::min(beam, wanted); i++) {
        const Total& candidate = candidates[i];
        if (candidate.id != end || !std::isfinite(candidate.total)) continue;
        const int32_t* line = decoding.line(row, candidate.parent);
        keep_best(own, Hypothesis{beams.tokens[row * width + candidate.parent], {line, line + decoding.steps()},
                                  candidate.total / divisor}, beam);
      }
      // Those that go on; at the end of the list the ones that ended, which are impossible now
      std::vector<Total> onward;
      for (int64_t i = 0; i < wanted; i++)
        if (candidates[i].id != end && std::isfinite(candidates[i].total)) onward.push_back(candidates[i]);
      for (int64_t i = 0; i < wanted; i++)
        if (candidates[i].id == end || !std::isfinite(candidates[i].total))
          onward.push_back(Total{impossible, candidates[i].parent, candidates[i].id});
      onward.resize(beam, Total{impossible, 0, end});
      const double best = onward[0].total / divisor;
      const bool done = static_cast<int64_t>(own.size()) == beam && own.back().score >= best;
      if (done || must_end[row]) continue;
      stay.push_back(static_cast<int32_t>(row));
      next.sentences.push_back(sentence);
      for (const Total& candidate : onward) {
        next.last.push_back(candidate.id);
        next.parents.push_back(candidate.parent);
        next.scores.push_back(candidate.total);
        next.tokens.push_back(beams.tokens[row * width + candidate.parent]);
        next.tokens.back().push_back(candidate.id);
      }
    }
    if (static_cast<int64_t>(stay.size()) < rows) decoding.select(stay.data(), static_cast<int64_t>(stay.size()));
    beams = std::move(next);
    width = beam;
  }
  return found;
}

}  // namespace tram
