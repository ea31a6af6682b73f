#include "device.h"
#include "identity.h"

// Between two requests for a certificate, if the service names no time.
#define RENEWAL_PAUSE_MS 3600000u
#define REQUEST_ROOM 512u

void apus_ask_for_certificate(struct apus_device *device) {
  uint8_t request[REQUEST_ROOM];
  EVP_PKEY_free(device->next_key);
  device->next_key = apus_new_key();
  device->not_before_ms = device->now_ms + RENEWAL_PAUSE_MS;
  device->advised_ms = APUS_NEVER;
  size_t length = device->next_key != NULL ? apus_certificate_request(device->next_key, request, sizeof request) : 0;
  if (length == 0 || !apus_has_room(device, length + APUS_FRAME_HEADER + APUS_FIELD_HEADER)) return;
  apus_begin(&device->writer, APUS_RENEWAL_REQUEST);
  apus_put(&device->writer, 0x41, request, length);
  apus_end(&device->writer);
  apus_write_output(device);
}

void apus_receive_certificate(
    struct apus_device *device, const struct apus_certificate_answer *answer, const struct apus_frame *frame) {
  if (answer->has_retry) device->not_before_ms = device->now_ms + UINT64_C(1000) * answer->retry_seconds;
  if (answer->status != 0 || device->next_key == NULL) return;
  const char *problem = apus_store_identity(device->config.identity_file, device->next_key, frame);
  if (problem != NULL) {
    apus_fail(device, problem);
    return;
  }
  EVP_PKEY_free(device->next_key);
  device->next_key = NULL;
  device->renewal_ms = apus_renewal_seconds(device->config.identity_file) * 1000;
  device->has_new_identity = true;
  device->events.renewed(device->context);
}

uint64_t apus_renewal_due_ms(const struct apus_device *device) {
  int64_t due = device->renewal_ms - device->clock_offset_ms;
  uint64_t by_life = device->renewal_ms == 0 ? APUS_NEVER : due > 0 ? (uint64_t)due : 0;
  uint64_t first = by_life < device->advised_ms ? by_life : device->advised_ms;
  return first > device->not_before_ms ? first : device->not_before_ms;
}
