#include "rotation.h"

void apus_rotation_init(struct apus_rotation *rotation, size_t count) {
  *rotation = (struct apus_rotation){.count = count, .untried = count - 1};
}

void apus_rotation_answered(struct apus_rotation *rotation) { rotation->preferred = rotation->current; }

void apus_rotation_restart(struct apus_rotation *rotation) {
  rotation->current = rotation->preferred;
  rotation->untried = rotation->count - 1;
  rotation->is_at_hint = rotation->is_hint_spent = rotation->has_hint;
}

void apus_rotation_hinted(struct apus_rotation *rotation, bool has_hint) { rotation->has_hint = has_hint; }

bool apus_rotation_failed(struct apus_rotation *rotation, bool was_steady) {
  if (was_steady) {
    rotation->untried = rotation->count - 1;
    rotation->is_hint_spent = rotation->is_at_hint;
  }
  if (rotation->is_at_hint) {
    rotation->is_at_hint = rotation->has_hint = false;
    return true;
  }
  if (rotation->has_hint && !rotation->is_hint_spent) {
    rotation->is_at_hint = rotation->is_hint_spent = true;
    return true;
  }
  if (rotation->untried == 0) {
    apus_rotation_restart(rotation);
    return false;
  }
  rotation->untried--;
  rotation->current = (rotation->current + 1) % rotation->count;
  return true;
}

bool apus_rotation_fell_silent(struct apus_rotation *rotation) {
  apus_rotation_restart(rotation);
  return rotation->count > 1 || rotation->is_at_hint;
}
