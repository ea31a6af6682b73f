#ifndef APUS_DEVICE_INTERNAL_H
#define APUS_DEVICE_INTERNAL_H

#include <netinet/in.h>
#include <openssl/ssl.h>

#include "message.h"
#include "rotation.h"

// The largest frame that a device must read: a payload of 5,120 bytes and the other fields of a notification.
#define APUS_INPUT_ROOM 5312u
// A filter with all topics, and what else is sent in one write.
#define APUS_OUTPUT_ROOM 1024u
// The service has at most 32 unacknowledged, so nothing older can come again.
#define APUS_TAKEN_COUNT 48u

// A message `Subscriptions`: 45 ids of 16 bytes with one topic.
#define APUS_CHANGE_ROOM 960u
#define APUS_CHANGE_FRAME_ROOM (APUS_FRAME_HEADER + 45u + APUS_CHANGE_ROOM)
#define APUS_ACKNOWLEDGEMENT_ROOM 51u

#define APUS_NEVER UINT64_MAX

enum apus_state {
  APUS_STATE_WAITING,
  APUS_STATE_TCP,
  APUS_STATE_HANDSHAKE,
  APUS_STATE_CONNECTING,
  APUS_STATE_SERVING,
};

struct apus_taken {
  uint64_t accepted_nanoseconds;
  uint32_t message_id;
  // A hash of topic and apns-id, which identify it under flag 0x04; 0: none.
  uint32_t identity;
};

struct apus_device {
  struct apus_config config;
  struct apus_events events;
  void *context;

  enum apus_state state;
  SSL_CTX *tls;
  SSL *ssl;
  int descriptor;
  bool wants_write;
  // When the state ends if nothing happens.
  uint64_t deadline_ms;
  uint64_t now_ms;

  struct apus_rotation rotation;
  // The address that the service named.
  char hint[INET6_ADDRSTRLEN];
  uint16_t hint_port;
  uint32_t backoff_ms;
  uint64_t accepted_ms;
  uint64_t active_ms;
  // When a keep-alive was sent that has no answer yet.
  bool is_asked;
  uint64_t asked_ms;

  bool has_base_token;
  bool has_new_identity;
  uint8_t base_token[APUS_TOKEN_BYTES];
  uint8_t topics[APUS_MOST_TOPICS][APUS_TOPIC_BYTES];
  // By topic: tokens that are wanted, and not asked for on this connection.
  uint32_t wanted_tokens;
  uint32_t unasked_tokens;
  bool is_filter_due;
  bool is_state_due;

  // The change of subscriptions that the service has not confirmed; `open_change` 0: none.
  uint32_t open_change;
  uint32_t last_change;
  bool is_change_due;
  size_t change_length;
  uint8_t change[APUS_CHANGE_ROOM];

  EVP_PKEY *next_key;
  // By the service's clock, which is the offset behind `now_ms`.
  int64_t renewal_ms;
  int64_t clock_offset_ms;
  // By `now_ms`: when the service advised to ask, and before when not to ask.
  uint64_t advised_ms;
  uint64_t not_before_ms;

  struct apus_taken taken[APUS_TAKEN_COUNT];
  size_t taken_next;

  struct apus_reader reader;
  uint8_t input[APUS_INPUT_ROOM];
  struct apus_writer writer;
  size_t written;
  uint8_t output[APUS_OUTPUT_ROOM];
};

_Static_assert(APUS_CHANGE_FRAME_ROOM <= APUS_OUTPUT_ROOM, "a change fits into an empty buffer");

// device.c

// Ends the connection; another one follows.
void apus_fail(struct apus_device *device, const char *text);
// The same with what OpenSSL says.
void apus_fail_tls(struct apus_device *device);

// output.c

// Whether so many bytes fit; if not, the caller tries again when some were written.
bool apus_has_room(const struct apus_device *device, size_t count);
void apus_put_base_token(struct apus_device *device);
void apus_put_acknowledgement(struct apus_device *device, uint32_t message_id, enum apus_status status);
// Writes what the socket takes of what is due. May end the connection.
void apus_write_output(struct apus_device *device);

// notification.c

void apus_receive_notification(struct apus_device *device, const struct apus_notification *notification);

// subscription.c

void apus_put_change(struct apus_device *device);
void apus_receive_confirmation(struct apus_device *device, const struct apus_confirmation *confirmation);

// renewal.c

void apus_ask_for_certificate(struct apus_device *device);
void apus_receive_certificate(
    struct apus_device *device, const struct apus_certificate_answer *answer, const struct apus_frame *frame);
uint64_t apus_renewal_due_ms(const struct apus_device *device);

#endif
