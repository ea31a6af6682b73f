// A histogram of latencies in fixed memory: 64 steps per power of two, exact to 1.6 %.

#include <stdint.h>
#include <string.h>
#include <time.h>

enum { latency_steps = 64, latency_slots = 40 * latency_steps };

static uint64_t latencies[latency_slots], latency_count, latency_most;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void note_latency(uint64_t microseconds) {
  unsigned power = microseconds < latency_steps ? 0 : 63u - (unsigned)__builtin_clzll(microseconds) - 5;
  unsigned index = power * latency_steps + (unsigned)((microseconds >> power) & (latency_steps - 1));
  if (index >= latency_slots) index = latency_slots - 1;
  latencies[index]++;
  latency_count++;
  if (microseconds > latency_most) latency_most = microseconds;
}

// The smallest latency of the step that reaches the share.
static uint64_t percentile(double share) {
  uint64_t rank = (uint64_t)((double)latency_count * share), seen = 0;
  for (unsigned index = 0; index < latency_slots; index++) {
    seen += latencies[index];
    if (seen > rank) return (uint64_t)(index % latency_steps) << (index / latency_steps);
  }
  return latency_most;
}

static void forget_latencies(void) {
  memset(latencies, 0, sizeof latencies);
  latency_count = latency_most = 0;
}
