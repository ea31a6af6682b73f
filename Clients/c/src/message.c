#include "message.h"

#include <string.h>

#include "channel.h"

// What a field must look like. Rules of a command follow each other.
struct rule {
  uint8_t command;
  uint8_t field;
  bool must;
  // Lengths from the least to the most; `gap`: only these two.
  uint16_t least;
  uint16_t most;
  bool gap;
};

#define ANY UINT16_MAX
// These hold messages of Protocol Buffers.
#define CHANNEL_FIELD 29u
#define SUBSCRIPTIONS_FIELD 2u

static const struct rule rules[] = {
    {APUS_CONNECT_RESPONSE, 1, true, 1, 1, false},
    {APUS_CONNECT_RESPONSE, 3, false, 32, 32, false},
    {APUS_CONNECT_RESPONSE, 4, true, 2, 2, false},
    {APUS_CONNECT_RESPONSE, 5, true, 2, 2, false},
    {APUS_CONNECT_RESPONSE, 6, true, 4, 4, false},
    {APUS_CONNECT_RESPONSE, 7, false, 8, 8, false},
    {APUS_CONNECT_RESPONSE, 8, true, 2, 2, false},
    {APUS_CONNECT_RESPONSE, 10, true, 8, 8, false},
    {APUS_NOTIFICATION, 1, true, 32, 32, false},
    {APUS_NOTIFICATION, 2, true, 20, 20, false},
    {APUS_NOTIFICATION, 3, true, 0, ANY, false},
    {APUS_NOTIFICATION, 4, true, 4, 4, false},
    {APUS_NOTIFICATION, 5, false, 4, 4, false},
    {APUS_NOTIFICATION, 6, false, 8, 8, false},
    {APUS_NOTIFICATION, 7, false, 1, 1, false},
    {APUS_NOTIFICATION, 13, false, 1, 1, false},
    {APUS_NOTIFICATION, CHANNEL_FIELD, false, 0, ANY, false},
    {APUS_NOTIFICATION, 0x40, false, 16, 16, false},
    {APUS_NOTIFICATION, 0x41, false, 1, 1, false},
    {APUS_NOTIFICATION, 0x42, false, 1, 64, false},
    {APUS_ACKNOWLEDGEMENT, 1, false, 32, 32, false},
    {APUS_ACKNOWLEDGEMENT, 4, true, 4, 4, false},
    {APUS_ACKNOWLEDGEMENT, 8, true, 1, 1, false},
    {APUS_KEEP_ALIVE_ANSWER, 0, false, 0, ANY, false},
    {APUS_NO_STORAGE, 1, false, 32, 32, false},
    {APUS_FLUSH_ANSWER, 2, false, 0, ANY, false},
    {APUS_APP_TOKEN_ANSWER, 1, true, 1, 1, false},
    {APUS_APP_TOKEN_ANSWER, 2, false, 0, 32, true},
    {APUS_APP_TOKEN_ANSWER, 3, true, 20, 20, false},
    {APUS_APP_TOKEN_ANSWER, 4, false, 2, 2, false},
    {APUS_CHANNEL, 1, true, 4, 4, false},
    {APUS_CHANNEL, SUBSCRIPTIONS_FIELD, false, 0, ANY, false},
    {APUS_CHANNEL, 3, false, 32, 32, false},
    {APUS_CHANNEL, 4, true, 1, 1, false},
    {APUS_GOODBYE, 0x41, false, 4, 4, false},
    {APUS_ENROLMENT_ANSWER, 0x40, true, 1, 1, false},
    {APUS_ENROLMENT_ANSWER, 0x41, false, 1, 1, false},
    {APUS_ENROLMENT_ANSWER, 0x44, false, 4, 4, false},
    {APUS_RENEWAL_ANSWER, 0x40, true, 1, 1, false},
    {APUS_RENEWAL_ANSWER, 0x41, false, 1, 1, false},
    {APUS_RENEWAL_ANSWER, 0x44, false, 4, 4, false},
    {APUS_RENEWAL_ADVICE, 0x44, true, 4, 4, false},
};
#define RULE_COUNT (sizeof rules / sizeof rules[0])

bool apus_is_read(uint8_t command) {
  for (size_t place = 0; place < RULE_COUNT; place++) {
    if (rules[place].command == command) return true;
  }
  return false;
}


static bool has_length(const struct rule *rule, size_t length) {
  if (rule->gap) return length == rule->least || length == rule->most;
  return length >= rule->least && (rule->most == ANY || length <= rule->most);
}

static bool fits(const struct apus_field *field, uint8_t command) {
  const uint8_t *id;
  size_t length;
  if (command == APUS_NOTIFICATION && field->id == CHANNEL_FIELD) {
    return apus_channel_id(field->value, field->length, &id, &length);
  }
  if (command == APUS_CHANNEL && field->id == SUBSCRIPTIONS_FIELD) {
    return apus_are_subscriptions(field->value, field->length);
  }
  for (size_t place = 0; place < RULE_COUNT; place++) {
    const struct rule *rule = &rules[place];
    if (rule->command == command && rule->field == field->id) return has_length(rule, field->length);
  }
  return true;
}

// The last field with an id; false if it is absent.
static bool find(const struct apus_frame *frame, uint8_t id, struct apus_field *found) {
  struct apus_field field;
  enum apus_fault fault;
  struct apus_fault_place place;
  bool is_present = false;
  for (size_t offset = 0; apus_next_field(frame, &offset, &field, &fault, &place);) {
    if (field.id != id) continue;
    *found = field;
    is_present = true;
  }
  return is_present;
}

static bool check(const struct apus_frame *frame, enum apus_fault *fault, struct apus_fault_place *place) {
  struct apus_field field;
  *fault = APUS_FAULT_NONE;
  for (size_t offset = 0; apus_next_field(frame, &offset, &field, fault, place);) {
    if (fits(&field, frame->command)) continue;
    *fault = APUS_FAULT_BAD_FIELD;
    *place = (struct apus_fault_place){.command = frame->command, .field = field.id, .length = field.length};
    return false;
  }
  if (*fault != APUS_FAULT_NONE) return false;
  for (size_t number = 0; number < RULE_COUNT; number++) {
    const struct rule *rule = &rules[number];
    if (rule->command != frame->command || !rule->must || find(frame, rule->field, &field)) continue;
    *fault = APUS_FAULT_MISSING_FIELD;
    *place = (struct apus_fault_place){.command = frame->command, .field = rule->field};
    return false;
  }
  return true;
}

static uint64_t number(const struct apus_frame *frame, uint8_t id, uint64_t otherwise) {
  struct apus_field field;
  return find(frame, id, &field) ? apus_number(field.value, field.length) : otherwise;
}

// NULL if it is absent or empty.
static const uint8_t *bytes(const struct apus_frame *frame, uint8_t id, size_t *length) {
  struct apus_field field;
  bool is_present = find(frame, id, &field) && field.length > 0;
  if (length != NULL) *length = is_present ? field.length : 0;
  return is_present ? field.value : NULL;
}

static struct apus_text text(const struct apus_frame *frame, uint8_t id) {
  struct apus_text text;
  text.start = bytes(frame, id, &text.length);
  return text;
}

static struct apus_notification notification(const struct apus_frame *frame) {
  uint64_t expiration = number(frame, 5, UINT32_MAX);
  uint64_t priority = number(frame, 13, 0), type = number(frame, 0x41, UINT8_MAX);
  struct apus_notification found = {
      .token = bytes(frame, 1, NULL),
      .topic = bytes(frame, 2, NULL),
      .message_id = (uint32_t)number(frame, 4, 0),
      .has_expiration = expiration != UINT32_MAX,
      .expiration_seconds = expiration != UINT32_MAX ? (uint32_t)expiration : 0,
      .accepted_nanoseconds = number(frame, 6, 0),
      .was_stored = (number(frame, 7, 0) & 1) != 0,
      .may_be_repeated = (number(frame, 7, 0) & 4) != 0,
      .priority = priority == 10 || priority == 5 || priority == 1 ? (uint8_t)priority : 0,
      .id = bytes(frame, 0x40, NULL),
      .push_type = type <= 10 ? (int)type : -1,
  };
  found.payload = bytes(frame, 3, &found.payload_length);
  found.collapse_id = bytes(frame, 0x42, &found.collapse_id_length);
  struct apus_field field;
  if (find(frame, CHANNEL_FIELD, &field)) {
    apus_channel_id(field.value, field.length, &found.channel, &found.channel_length);
  }
  return found;
}

static bool answer(
    const struct apus_frame *frame, struct apus_certificate_answer *answer, enum apus_fault *fault,
    struct apus_fault_place *place) {
  uint64_t retry = number(frame, 0x44, UINT64_MAX);
  *answer = (struct apus_certificate_answer){
      .status = (uint8_t)number(frame, 0x40, 2),
      .reason = (uint8_t)number(frame, 0x41, 0),
      .text = text(frame, 0x42),
      .has_retry = retry != UINT64_MAX,
      .retry_seconds = retry != UINT64_MAX ? (uint32_t)retry : 0,
  };
  struct apus_field field;
  if (answer->status != 0 || find(frame, 0x43, &field)) return true;
  *fault = APUS_FAULT_MISSING_FIELD;
  *place = (struct apus_fault_place){.command = frame->command, .field = 0x43};
  return false;
}

bool apus_decode(
    const struct apus_frame *frame, struct apus_message *message, enum apus_fault *fault,
    struct apus_fault_place *place) {
  if (!check(frame, fault, place)) return false;
  memset(message, 0, sizeof *message);
  message->command = frame->command;
  switch (frame->command) {
    case APUS_CONNECT_RESPONSE:
      message->of.response = (struct apus_connect_response){
          .status = (uint8_t)number(frame, 1, 2),
          .token = bytes(frame, 3, NULL),
          .server_ms = number(frame, 10, 0),
          .explanation = text(frame, 0x40),
          .hint = text(frame, 0x41),
      };
      break;
    case APUS_NOTIFICATION: message->of.notification = notification(frame); break;
    case APUS_APP_TOKEN_ANSWER:
      message->of.token = (struct apus_app_token){
          .status = (uint8_t)number(frame, 1, 1),
          .token = bytes(frame, 2, NULL),
          .topic = bytes(frame, 3, NULL),
      };
      break;
    case APUS_CHANNEL:
      message->of.confirmation = (struct apus_confirmation){
          .index = (uint32_t)number(frame, 1, 0), .status = (uint8_t)number(frame, 4, 0)};
      message->of.confirmation.subscriptions.start =
          bytes(frame, SUBSCRIPTIONS_FIELD, &message->of.confirmation.subscriptions.length);
      break;
    case APUS_GOODBYE: {
      uint64_t delay = number(frame, 0x41, UINT64_MAX);
      message->of.goodbye = (struct apus_goodbye){
          .reason = text(frame, 0x40),
          .has_delay = delay != UINT64_MAX,
          .delay_ms = delay != UINT64_MAX ? (uint32_t)delay : 0,
      };
      break;
    }
    case APUS_ENROLMENT_ANSWER:
    case APUS_RENEWAL_ANSWER: return answer(frame, &message->of.answer, fault, place);
    case APUS_RENEWAL_ADVICE: message->of.advice_seconds = (uint32_t)number(frame, 0x44, 0); break;
    default: break;
  }
  return true;
}

bool apus_next_certificate(const struct apus_frame *frame, size_t *offset, struct apus_field *field) {
  enum apus_fault fault;
  struct apus_fault_place place;
  while (apus_next_field(frame, offset, field, &fault, &place)) {
    if (field->id == 0x43) return true;
  }
  return false;
}
