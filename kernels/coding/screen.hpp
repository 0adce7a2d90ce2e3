#pragma once

#include <cstdint>

#include "coding/lars.hpp"

namespace prototag {

// A prototype and its promise in one integer that sorts by promise: largest first is best first.
using Key = std::uint64_t;

// Keep the prototypes of the largest promise for each image. `promise` is an n x size block for the
// prototypes from `offset` on; call it for one block after another with the same `key` (n x room),
// `count` (n, 0 at first) and `floor` (n). A row then holds at least the `width` best.
void screen(const float* promise, std::int64_t n, std::int64_t size, std::int64_t offset,
            std::int64_t width, Key* key, std::int32_t* count, std::int64_t room, float* floor);

// Turn the keys into at most `width` candidates, the `core` best of them first.
void settle(Key* key, const std::int32_t* key_count, std::int64_t key_room, std::int64_t n,
            std::int64_t width, const Candidates& candidates);

// Add to the candidates the prototypes whose correlation with the residual (over their weights)
// exceeds `bound` (n), raise `largest` (n) to the largest correlation seen, and count in `added` (n)
// the new ones, also those that found no room.
void violators(const float* correlation, std::int64_t n, std::int64_t size, std::int64_t offset,
               const float* weights, const float* bound, const Candidates& candidates,
               std::int32_t* added, float* largest);

}  // namespace prototag
