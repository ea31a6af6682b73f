#include "device.h"

// FNV-1a.
static uint32_t hash(uint32_t hash, const uint8_t *bytes, size_t length) {
  for (size_t place = 0; place < length; place++) hash = (hash ^ bytes[place]) * 16777619U;
  return hash;
}

static uint32_t identity(const struct apus_notification *notification) {
  if (notification->id == NULL) return 0;
  return hash(hash(2166136261U, notification->topic, APUS_TOPIC_BYTES), notification->id, 16);
}

static bool was_taken(const struct apus_device *device, const struct apus_notification *notification) {
  uint32_t repeated = notification->may_be_repeated ? identity(notification) : 0;
  for (size_t place = 0; place < APUS_TAKEN_COUNT; place++) {
    const struct apus_taken *taken = &device->taken[place];
    if (repeated != 0 && taken->identity == repeated) return true;
    if (taken->message_id == notification->message_id &&
        taken->accepted_nanoseconds == notification->accepted_nanoseconds) {
      return true;
    }
  }
  return false;
}

static void take(struct apus_device *device, uint32_t message_id, uint64_t nanoseconds, uint32_t identity) {
  device->taken[device->taken_next] = (struct apus_taken){nanoseconds, message_id, identity};
  device->taken_next = (device->taken_next + 1) % APUS_TAKEN_COUNT;
}

void apus_receive_notification(struct apus_device *device, const struct apus_notification *notification) {
  uint32_t message_id = notification->message_id;
  // It comes again if its acknowledgement was lost, or is still to come.
  if (was_taken(device, notification)) {
    apus_put_acknowledgement(device, message_id, APUS_TAKEN);
    return;
  }
  int status = device->events.notification(device->context, notification);
  if (device->state != APUS_STATE_SERVING || status < 0) return;
  take(device, message_id, notification->accepted_nanoseconds, identity(notification));
  apus_put_acknowledgement(device, message_id, (enum apus_status)status);
}

void apus_acknowledge(
    struct apus_device *device, uint32_t message_id, uint64_t accepted_nanoseconds, enum apus_status status) {
  if (device->state != APUS_STATE_SERVING) return;
  if (!apus_has_room(device, APUS_ACKNOWLEDGEMENT_ROOM)) apus_write_output(device);
  if (device->state == APUS_STATE_SERVING && apus_has_room(device, APUS_ACKNOWLEDGEMENT_ROOM)) {
    take(device, message_id, accepted_nanoseconds, 0);
    apus_put_acknowledgement(device, message_id, status);
    apus_write_output(device);
  }
}
