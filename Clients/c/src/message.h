#ifndef APUS_MESSAGE_H
#define APUS_MESSAGE_H

#include "apus_device.h"
#include "frame.h"

// Messages to a device, sections 3 to 11 of the protocol.

enum apus_command {
  APUS_CONNECT = 0x07,
  APUS_CONNECT_RESPONSE = 0x08,
  APUS_FILTER = 0x09,
  APUS_NOTIFICATION = 0x0a,
  APUS_ACKNOWLEDGEMENT = 0x0b,
  APUS_KEEP_ALIVE = 0x0c,
  APUS_KEEP_ALIVE_ANSWER = 0x0d,
  APUS_NO_STORAGE = 0x0e,
  APUS_FLUSH_ANSWER = 0x10,
  APUS_APP_TOKEN_REQUEST = 0x11,
  APUS_APP_TOKEN_ANSWER = 0x12,
  APUS_SET_STATE = 0x14,
  APUS_CHANNEL = 0x1d,
  APUS_GOODBYE = 0x80,
  APUS_ENROLMENT_REQUEST = 0x81,
  APUS_ENROLMENT_ANSWER = 0x82,
  APUS_RENEWAL_REQUEST = 0x83,
  APUS_RENEWAL_ANSWER = 0x84,
  APUS_RENEWAL_ADVICE = 0x85,
};

struct apus_text {
  const uint8_t *start;  // NULL: absent
  size_t length;
};

struct apus_connect_response {
  uint8_t status;
  const uint8_t *token;  // NULL: absent
  uint64_t server_ms;
  struct apus_text explanation;
  // HOST:PORT of a better address; empty for none.
  struct apus_text hint;
};

struct apus_app_token {
  uint8_t status;
  const uint8_t *token;  // NULL: none
  const uint8_t *topic;
};

struct apus_confirmation {
  uint32_t index;
  uint8_t status;
  struct apus_subscriptions subscriptions;
};

struct apus_goodbye {
  struct apus_text reason;
  bool has_delay;
  uint32_t delay_ms;
};

// Answers to requests for certificates, which are in the frame (`apus_next_certificate`).
struct apus_certificate_answer {
  uint8_t status;  // 0 accepted, 1 pending, 2 refused
  uint8_t reason;  // 0: none
  struct apus_text text;
  bool has_retry;
  uint32_t retry_seconds;
};

struct apus_message {
  uint8_t command;
  union {
    struct apus_connect_response response;
    struct apus_notification notification;
    struct apus_app_token token;
    struct apus_confirmation confirmation;
    struct apus_goodbye goodbye;
    struct apus_certificate_answer answer;
    uint32_t advice_seconds;
  } of;
};

// Whether this client reads frames with that command.
bool apus_is_read(uint8_t command);

// Reads a frame; false with a fault if it is malformed. Every frame that a device must understand is checked, also
// those whose content does not matter to this client.
bool apus_decode(
    const struct apus_frame *frame, struct apus_message *message, enum apus_fault *fault,
    struct apus_fault_place *place);

// The next certificate of an answer, DER. `*offset` begins with 0.
bool apus_next_certificate(const struct apus_frame *frame, size_t *offset, struct apus_field *field);

#endif
