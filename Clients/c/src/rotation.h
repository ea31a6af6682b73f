#ifndef APUS_ROTATION_H
#define APUS_ROTATION_H

#include <stdbool.h>
#include <stddef.h>

// Which of the service's addresses is tried next. A round begins with the address that the service named (the hint), or
// else with the one that worked last, tries each once, and ends with a wait.
struct apus_rotation {
  size_t count;
  size_t current;
  // The address that worked last.
  size_t preferred;
  // Addresses that this round has not tried yet, besides the current one.
  size_t untried;
  bool has_hint;
  // The hint is tried next, or connected, in place of `current`.
  bool is_at_hint;
  // This round has tried a hint: services that name another one and close would be tried without a wait.
  bool is_hint_spent;
};

void apus_rotation_init(struct apus_rotation *rotation, size_t count);

// The service accepted the device, or refused it. That does not begin a round: one that accepts and closes at once
// would be tried without a wait.
void apus_rotation_answered(struct apus_rotation *rotation);

// The service named an address to try first, or none.
void apus_rotation_hinted(struct apus_rotation *rotation, bool has_hint);

// The current address failed, or its connection was lost. `was_steady`: it had worked, and this is the first failure of
// a new round. True: connect at once; false: the round is over, wait first.
bool apus_rotation_failed(struct apus_rotation *rotation, bool was_steady);

// A steady connection was lost in silence: the network may have forgotten it, so the same address is tried first. The
// result as above.
bool apus_rotation_fell_silent(struct apus_rotation *rotation);

// The next attempt begins a round: after a goodbye or a refusal, which other addresses do not change.
void apus_rotation_restart(struct apus_rotation *rotation);

#endif
