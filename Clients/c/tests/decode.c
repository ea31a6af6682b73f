// Reads frames as lines of hexadecimal digits, and prints what the library makes of each as a line of JSON.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

#define MOST 140000u

static size_t read_line(uint8_t *bytes) {
  static char line[2 * MOST + 2];
  if (fgets(line, sizeof line, stdin) == NULL) return SIZE_MAX;
  size_t count = 0;
  for (unsigned byte; sscanf(line + 2 * count, "%2x", &byte) == 1; count++) bytes[count] = (uint8_t)byte;
  return count;
}

static void print_bytes(const char *name, const uint8_t *bytes, size_t count) {
  if (bytes == NULL) return;
  printf(",\"%s\":\"", name);
  for (size_t place = 0; place < count; place++) printf("%02x", bytes[place]);
  printf("\"");
}

static void print_number(const char *name, uint64_t number) {
  printf(",\"%s\":%llu", name, (unsigned long long)number);
}

static void print(const struct apus_message *message, const struct apus_frame *frame) {
  printf("{\"command\":%u", (unsigned)message->command);
  switch (message->command) {
    case APUS_CONNECT_RESPONSE:
      print_number("status", message->of.response.status);
      print_bytes("token", message->of.response.token, APUS_TOKEN_BYTES);
      print_number("serverMilliseconds", message->of.response.server_ms);
      print_bytes("explanation", message->of.response.explanation.start, message->of.response.explanation.length);
      break;
    case APUS_NOTIFICATION: {
      const struct apus_notification *found = &message->of.notification;
      print_bytes("token", found->token, APUS_TOKEN_BYTES);
      print_bytes("topic", found->topic, APUS_TOPIC_BYTES);
      print_bytes("payload", found->payload, found->payload_length);
      print_number("messageID", found->message_id);
      if (found->has_expiration) print_number("expirySeconds", found->expiration_seconds);
      if (found->accepted_nanoseconds != 0) print_number("sentNanoseconds", found->accepted_nanoseconds);
      if (found->priority != 0) print_number("priority", found->priority);
      print_bytes("id", found->id, 16);
      if (found->push_type >= 0) print_number("pushType", (uint64_t)found->push_type);
      print_bytes("collapseID", found->collapse_id, found->collapse_id_length);
      print_bytes("channel", found->channel, found->channel_length);
      break;
    }
    case APUS_APP_TOKEN_ANSWER:
      print_number("status", message->of.token.status);
      print_bytes("token", message->of.token.token, APUS_TOKEN_BYTES);
      print_bytes("topic", message->of.token.topic, APUS_TOPIC_BYTES);
      break;
    case APUS_CHANNEL: {
      struct apus_subscription found;
      print_number("index", message->of.confirmation.index);
      print_number("status", message->of.confirmation.status);
      printf(",\"subscribed\":\"");
      for (size_t place = 0; apus_next_subscription(&message->of.confirmation.subscriptions, &place, &found);) {
        printf("%s%.*s/", place > 1 ? " " : "", (int)found.topic_length, found.topic);
        for (size_t byte = 0; byte < found.channel_length; byte++) printf("%02x", found.channel[byte]);
      }
      printf("\"");
      break;
    }
    case APUS_GOODBYE:
      print_bytes("reason", message->of.goodbye.reason.start, message->of.goodbye.reason.length);
      if (message->of.goodbye.has_delay) print_number("reconnectMilliseconds", message->of.goodbye.delay_ms);
      break;
    case APUS_ENROLMENT_ANSWER:
    case APUS_RENEWAL_ANSWER: {
      struct apus_field field;
      print_number("status", message->of.answer.status);
      if (message->of.answer.reason != 0) print_number("reason", message->of.answer.reason);
      if (message->of.answer.has_retry) print_number("retrySeconds", message->of.answer.retry_seconds);
      print_bytes("text", message->of.answer.text.start, message->of.answer.text.length);
      for (size_t offset = 0; apus_next_certificate(frame, &offset, &field);) {
        print_bytes("certificate", field.value, field.length);
      }
      break;
    }
    case APUS_RENEWAL_ADVICE: print_number("withinSeconds", message->of.advice_seconds); break;
    default: break;
  }
  printf("}\n");
}

int main(void) {
  static uint8_t bytes[MOST], memory[APUS_FRAME_MOST];
  for (size_t count; (count = read_line(bytes)) != SIZE_MAX;) {
    struct apus_reader reader;
    struct apus_frame frame;
    struct apus_message message;
    struct apus_fault_place place = {0};
    enum apus_fault fault = APUS_FAULT_NONE;
    const uint8_t *next = bytes;
    apus_reader_init(&reader, memory, sizeof memory);
    enum apus_read result = apus_reader_take(&reader, &next, &count, apus_is_read, &frame, &fault, &place);
    if (result == APUS_READ_FRAME && apus_decode(&frame, &message, &fault, &place)) {
      print(&message, &frame);
    } else if (fault != APUS_FAULT_NONE) {
      printf("{\"kind\":\"%s\",\"command\":%u,\"field\":%u,\"length\":%zu,\"offset\":%zu}\n", apus_fault_name(fault),
             (unsigned)place.command, (unsigned)place.field, place.length, place.offset);
    } else {
      printf("{\"skipped\":true}\n");
    }
  }
  return 0;
}
