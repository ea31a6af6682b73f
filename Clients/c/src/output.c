#include <errno.h>

#include "device.h"

// Sections 9 and 11 of the protocol.
#define WRITE_MS 30000u

void apus_put_base_token(struct apus_device *device) {
  if (device->has_base_token) apus_put(&device->writer, 1, device->base_token, APUS_TOKEN_BYTES);
}

bool apus_has_room(const struct apus_device *device, size_t count) {
  return device->writer.room - device->writer.length >= count;
}

static void put_filter(struct apus_device *device) {
  apus_begin(&device->writer, APUS_FILTER);
  apus_put_base_token(device);
  for (size_t place = 0; place < device->config.topic_count; place++) {
    apus_put(&device->writer, 2, device->topics[place], APUS_TOPIC_BYTES);
  }
  apus_end(&device->writer);
}

static void put_state(struct apus_device *device) {
  apus_begin(&device->writer, APUS_SET_STATE);
  apus_put_number(&device->writer, 1, (uint32_t)device->config.power, 1);
  apus_put_number(&device->writer, 2, 0x7fffffff, 4);
  apus_end(&device->writer);
}

static void put_token_request(struct apus_device *device, size_t topic) {
  apus_begin(&device->writer, APUS_APP_TOKEN_REQUEST);
  apus_put_base_token(device);
  apus_put(&device->writer, 2, device->topics[topic], APUS_TOPIC_BYTES);
  apus_put_number(&device->writer, 3, 0, 2);
  apus_end(&device->writer);
}

void apus_put_acknowledgement(struct apus_device *device, uint32_t message_id, enum apus_status status) {
  apus_begin(&device->writer, APUS_ACKNOWLEDGEMENT);
  apus_put_base_token(device);
  apus_put_number(&device->writer, 4, message_id, 4);
  apus_put_number(&device->writer, 8, (uint32_t)status, 1);
  apus_end(&device->writer);
}

#define FILTER_ROOM (APUS_FRAME_HEADER + 35u + 23u * APUS_MOST_TOPICS)
#define STATE_ROOM 16u
#define TOKEN_REQUEST_ROOM 68u

// Puts what is due, as far as there is room.
static void put_due(struct apus_device *device) {
  if (device->is_filter_due && apus_has_room(device, FILTER_ROOM)) {
    put_filter(device);
    device->is_filter_due = false;
  }
  if (device->is_filter_due) return;
  if (device->is_state_due && apus_has_room(device, STATE_ROOM)) {
    put_state(device);
    device->is_state_due = false;
  }
  if (device->is_change_due && apus_has_room(device, APUS_CHANGE_FRAME_ROOM)) {
    apus_put_change(device);
    device->is_change_due = false;
  }
  for (size_t place = 0; place < device->config.topic_count && apus_has_room(device, TOKEN_REQUEST_ROOM); place++) {
    if ((device->unasked_tokens >> place & 1) == 0) continue;
    put_token_request(device, place);
    device->unasked_tokens &= ~(UINT32_C(1) << place);
  }
}

void apus_write_output(struct apus_device *device) {
  if (device->state == APUS_STATE_SERVING) put_due(device);
  device->wants_write = false;
  while (device->written < device->writer.length) {
    int rest = (int)(device->writer.length - device->written);
    errno = 0;
    int count = SSL_write(device->ssl, device->output + device->written, rest);
    if (count <= 0) {
      int error = SSL_get_error(device->ssl, count);
      if (error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ) {
        apus_fail_tls(device);
        return;
      }
      if (device->now_ms - device->active_ms > WRITE_MS) {
        apus_fail(device, "the service does not read");
        return;
      }
      device->wants_write = error == SSL_ERROR_WANT_WRITE;
      return;
    }
    device->written += (size_t)count;
    device->active_ms = device->now_ms;
  }
  apus_writer_init(&device->writer, device->output, sizeof device->output);
  device->written = 0;
  bool is_due = device->is_filter_due || device->is_change_due || device->unasked_tokens != 0;
  if (device->state == APUS_STATE_SERVING && is_due) {
    device->wants_write = true;
  }
}
