#include <string.h>

#include "channel.h"
#include "device.h"

void apus_put_change(struct apus_device *device) {
  apus_begin(&device->writer, APUS_CHANNEL);
  apus_put_number(&device->writer, 1, device->open_change, 4);
  apus_put(&device->writer, 2, device->change, device->change_length);
  if (device->has_base_token) apus_put(&device->writer, 3, device->base_token, APUS_TOKEN_BYTES);
  apus_end(&device->writer);
}

static uint32_t begin_change(struct apus_device *device, const struct apus_change *change) {
  if (device->open_change != 0) return 0;
  device->change_length = apus_encode_change(change, device->change, sizeof device->change);
  if (device->change_length == 0) return 0;
  // 0 is none.
  if (++device->last_change == 0) device->last_change = 1;
  device->open_change = device->last_change;
  device->is_change_due = true;
  if (device->state == APUS_STATE_SERVING) apus_write_output(device);
  return device->last_change;
}

// A change of one channel.
static uint32_t begin_one(
    struct apus_device *device, const char *topic, const uint8_t *channel, size_t length, bool unsubscribes) {
  struct apus_subscription one = {
      .topic = topic, .topic_length = strlen(topic), .channel = channel, .channel_length = length};
  return begin_change(
      device, &(struct apus_change){.subscriptions = &one, .count = 1, .unsubscribes = unsubscribes});
}

uint32_t apus_subscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length) {
  return begin_one(device, topic, channel, length, false);
}

uint32_t apus_unsubscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length) {
  return begin_one(device, topic, channel, length, true);
}

uint32_t apus_replace_subscriptions(
    struct apus_device *device, const struct apus_subscription *subscriptions, size_t count) {
  return begin_change(
      device, &(struct apus_change){.subscriptions = subscriptions, .count = count, .replaces = true});
}

uint32_t apus_list_subscriptions(struct apus_device *device) {
  return begin_change(device, &(struct apus_change){.count = 0});
}

void apus_receive_confirmation(struct apus_device *device, const struct apus_confirmation *confirmation) {
  if (confirmation->index != device->open_change || device->open_change == 0) return;
  device->open_change = 0;
  if (device->events.subscriptions == NULL) return;
  device->events.subscriptions(
      device->context, confirmation->index, (enum apus_change_status)confirmation->status,
      &confirmation->subscriptions);
}
