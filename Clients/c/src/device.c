#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "identity.h"
#include "tls.h"

// Sections 9 and 11 of the protocol.
#define CONNECT_MS 10000u
#define ANSWER_MS 30000u
#define WRITE_MS 30000u
#define STEADY_MS 30000u
#define FIRST_BACKOFF_MS 1000u
#define MOST_BACKOFF_MS 300000u
#define KEEP_ALIVE_SECONDS 900u
// Between two requests for a certificate, if the service names no time.
#define RENEWAL_PAUSE_MS 3600000u
#define REQUEST_ROOM 512u
#define NEVER UINT64_MAX
#define TEXT_ROOM 160u

static uint32_t random_below(uint32_t limit) {
  uint32_t number = 0;
  RAND_bytes((unsigned char *)&number, sizeof number);
  return limit > 0 ? number % limit : 0;
}

void apus_topic(const char *topic, uint8_t hash[APUS_TOPIC_BYTES]) {
  SHA1((const unsigned char *)topic, strlen(topic), hash);
}

// Making and ending

struct apus_device *apus_device_new(
    const struct apus_config *config, const struct apus_events *events, void *context, const char **problem) {
  if (config->topic_count > APUS_MOST_TOPICS) {
    *problem = "too many topics";
    return NULL;
  }
  struct apus_device *device = calloc(1, sizeof *device);
  if (device == NULL) {
    *problem = "out of memory";
    return NULL;
  }
  device->config = *config;
  device->events = *events;
  device->context = context;
  device->descriptor = -1;
  device->backoff_ms = FIRST_BACKOFF_MS;
  device->advised_ms = NEVER;
  if (config->keep_alive_seconds == 0) device->config.keep_alive_seconds = KEEP_ALIVE_SECONDS;
  if (config->base_token != NULL) {
    memcpy(device->base_token, config->base_token, APUS_TOKEN_BYTES);
    device->has_base_token = true;
  }
  for (size_t place = 0; place < config->topic_count; place++) {
    apus_topic(config->topics[place], device->topics[place]);
  }
  device->renewal_ms = apus_renewal_seconds(config->identity_file) * 1000;
  device->tls = apus_tls_context(config->authority_file, config->identity_file, problem);
  if (device->tls != NULL) return device;
  free(device);
  return NULL;
}

static void close_connection(struct apus_device *device) {
  SSL_free(device->ssl);
  device->ssl = NULL;
  if (device->descriptor >= 0) close(device->descriptor);
  device->descriptor = -1;
}

void apus_device_free(struct apus_device *device) {
  if (device == NULL) return;
  close_connection(device);
  EVP_PKEY_free(device->next_key);
  SSL_CTX_free(device->tls);
  free(device);
}

// Ends the connection, and waits for the next one: as long as the service asked for, or by the back-off.
static void finish(struct apus_device *device, enum apus_end end, const char *text, const uint32_t *delay_ms) {
  if (device->ssl != NULL && device->state == APUS_STATE_SERVING) SSL_shutdown(device->ssl);
  ERR_clear_error();
  close_connection(device);
  bool was_steady = device->state == APUS_STATE_SERVING && device->now_ms - device->accepted_ms >= STEADY_MS;
  device->state = APUS_STATE_WAITING;
  if (delay_ms != NULL) {
    device->backoff_ms = FIRST_BACKOFF_MS;
    device->deadline_ms = device->now_ms + (*delay_ms < MOST_BACKOFF_MS ? *delay_ms : MOST_BACKOFF_MS);
  } else {
    // "Try rarely" where waiting does not help.
    if (was_steady) device->backoff_ms = FIRST_BACKOFF_MS;
    if (end == APUS_END_CERTIFICATE) device->backoff_ms = MOST_BACKOFF_MS;
    uint32_t wait = device->backoff_ms;
    device->backoff_ms = wait * 2 < MOST_BACKOFF_MS ? wait * 2 : MOST_BACKOFF_MS;
    device->deadline_ms = device->now_ms + wait / 2 + random_below(wait / 2 + 1);
  }
  device->events.ended(device->context, end, text);
}

static void fail(struct apus_device *device, const char *text) { finish(device, APUS_END_NETWORK, text, NULL); }

static void fail_tls(struct apus_device *device) {
  const char *text;
  enum apus_end end = apus_tls_end(&text);
  finish(device, end, text, NULL);
}

static void fail_frame(struct apus_device *device, enum apus_fault fault, const struct apus_fault_place *place) {
  char text[TEXT_ROOM];
  snprintf(
      text, sizeof text, "the service sent a malformed frame: %s, command %u, field %u", apus_fault_name(fault),
      (unsigned)place->command, (unsigned)place->field);
  fail(device, text);
}

static void finish_with(
    struct apus_device *device, enum apus_end end, struct apus_text reason, const uint32_t *delay_ms) {
  char text[TEXT_ROOM];
  int length = reason.length < sizeof text ? (int)reason.length : (int)sizeof text - 1;
  snprintf(text, sizeof text, "%.*s", length, reason.start != NULL ? (const char *)reason.start : "");
  finish(device, end, text, delay_ms);
}

// Output

static void put_base_token(struct apus_device *device) {
  if (device->has_base_token) apus_put(&device->writer, 1, device->base_token, APUS_TOKEN_BYTES);
}

// Whether so many bytes fit; if not, the caller tries again when some were written.
static bool has_room(const struct apus_device *device, size_t count) {
  return device->writer.room - device->writer.length >= count;
}

static void put_filter(struct apus_device *device) {
  apus_begin(&device->writer, APUS_FILTER);
  put_base_token(device);
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
  put_base_token(device);
  apus_put(&device->writer, 2, device->topics[topic], APUS_TOPIC_BYTES);
  apus_put_number(&device->writer, 3, 0, 2);
  apus_end(&device->writer);
}

static void put_acknowledgement(struct apus_device *device, uint32_t message_id, enum apus_status status) {
  apus_begin(&device->writer, APUS_ACKNOWLEDGEMENT);
  put_base_token(device);
  apus_put_number(&device->writer, 4, message_id, 4);
  apus_put_number(&device->writer, 8, (uint32_t)status, 1);
  apus_end(&device->writer);
}

static void put_change(struct apus_device *device) {
  apus_begin(&device->writer, APUS_CHANNEL);
  apus_put_number(&device->writer, 1, device->open_change, 4);
  apus_put(&device->writer, 2, device->change, device->change_length);
  if (device->has_base_token) apus_put(&device->writer, 3, device->base_token, APUS_TOKEN_BYTES);
  apus_end(&device->writer);
}

#define FILTER_ROOM (APUS_FRAME_HEADER + 35u + 23u * APUS_MOST_TOPICS)
#define STATE_ROOM 16u
#define TOKEN_REQUEST_ROOM 68u
#define ACKNOWLEDGEMENT_ROOM 51u
#define CHANGE_FRAME_ROOM (APUS_FRAME_HEADER + 45u + APUS_CHANGE_ROOM)
#define KEEP_ALIVE_ROOM 10u

// Puts what is due, as far as there is room.
static void put_due(struct apus_device *device) {
  if (device->is_filter_due && has_room(device, FILTER_ROOM)) {
    put_filter(device);
    device->is_filter_due = false;
  }
  if (device->is_filter_due) return;
  if (device->is_state_due && has_room(device, STATE_ROOM)) {
    put_state(device);
    device->is_state_due = false;
  }
  if (device->is_change_due && has_room(device, CHANGE_FRAME_ROOM)) {
    put_change(device);
    device->is_change_due = false;
  }
  for (size_t place = 0; place < device->config.topic_count && has_room(device, TOKEN_REQUEST_ROOM); place++) {
    if ((device->unasked_tokens >> place & 1) == 0) continue;
    put_token_request(device, place);
    device->unasked_tokens &= ~(UINT32_C(1) << place);
  }
}

static void write_output(struct apus_device *device) {
  if (device->state == APUS_STATE_SERVING) put_due(device);
  device->wants_write = false;
  while (device->written < device->writer.length) {
    int rest = (int)(device->writer.length - device->written);
    errno = 0;
    int count = SSL_write(device->ssl, device->output + device->written, rest);
    if (count <= 0) {
      int error = SSL_get_error(device->ssl, count);
      if (error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ) {
        fail_tls(device);
        return;
      }
      if (device->now_ms - device->active_ms > WRITE_MS) {
        fail(device, "the service does not read");
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

// Notifications

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

static void receive_notification(struct apus_device *device, const struct apus_notification *notification) {
  uint32_t message_id = notification->message_id;
  // It comes again if its acknowledgement was lost, or is still to come.
  if (was_taken(device, notification)) {
    put_acknowledgement(device, message_id, APUS_TAKEN);
    return;
  }
  int status = device->events.notification(device->context, notification);
  if (device->state != APUS_STATE_SERVING || status < 0) return;
  take(device, message_id, notification->accepted_nanoseconds, identity(notification));
  put_acknowledgement(device, message_id, (enum apus_status)status);
}

void apus_acknowledge(
    struct apus_device *device, uint32_t message_id, uint64_t accepted_nanoseconds, enum apus_status status) {
  if (device->state != APUS_STATE_SERVING) return;
  if (!has_room(device, ACKNOWLEDGEMENT_ROOM)) write_output(device);
  if (device->state == APUS_STATE_SERVING && has_room(device, ACKNOWLEDGEMENT_ROOM)) {
    take(device, message_id, accepted_nanoseconds, 0);
    put_acknowledgement(device, message_id, status);
    write_output(device);
  }
}

// Topics and power

void apus_request_token(struct apus_device *device, const char *topic) {
  uint8_t hash[APUS_TOPIC_BYTES];
  apus_topic(topic, hash);
  for (size_t place = 0; place < device->config.topic_count; place++) {
    if (memcmp(device->topics[place], hash, sizeof hash) != 0) continue;
    device->wanted_tokens |= UINT32_C(1) << place;
    device->unasked_tokens |= UINT32_C(1) << place;
  }
  if (device->state == APUS_STATE_SERVING) write_output(device);
}

void apus_set_power(struct apus_device *device, enum apus_power power) {
  device->config.power = power;
  device->is_state_due = true;
  if (device->state == APUS_STATE_SERVING) write_output(device);
}

static void receive_token(struct apus_device *device, const struct apus_app_token *answer) {
  for (size_t place = 0; place < device->config.topic_count; place++) {
    if (memcmp(device->topics[place], answer->topic, APUS_TOPIC_BYTES) != 0) continue;
    if ((device->wanted_tokens >> place & 1) == 0) return;
    device->wanted_tokens &= ~(UINT32_C(1) << place);
    device->events.token(device->context, answer->topic, answer->status == 0 ? answer->token : NULL);
    return;
  }
}

// Channels

static uint32_t begin_change(struct apus_device *device, const struct apus_change *change) {
  if (device->open_change != 0) return 0;
  device->change_length = apus_encode_change(change, device->change, sizeof device->change);
  if (device->change_length == 0) return 0;
  // 0 is none.
  if (++device->last_change == 0) device->last_change = 1;
  device->open_change = device->last_change;
  device->is_change_due = true;
  if (device->state == APUS_STATE_SERVING) write_output(device);
  return device->last_change;
}

uint32_t apus_subscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length) {
  return begin_change(
      device, &(struct apus_change){.topic = topic, .channel = channel, .channel_length = length});
}

uint32_t apus_unsubscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length) {
  return begin_change(
      device,
      &(struct apus_change){.topic = topic, .channel = channel, .channel_length = length, .unsubscribes = true});
}

uint32_t apus_list_subscriptions(struct apus_device *device) {
  return begin_change(device, &(struct apus_change){.topic = NULL});
}

static void receive_confirmation(struct apus_device *device, const struct apus_confirmation *confirmation) {
  if (confirmation->index != device->open_change || device->open_change == 0) return;
  device->open_change = 0;
  if (device->events.subscriptions == NULL) return;
  device->events.subscriptions(
      device->context, confirmation->index, (enum apus_change_status)confirmation->status,
      &confirmation->subscriptions);
}

// Renewal

static void ask_for_certificate(struct apus_device *device) {
  uint8_t request[REQUEST_ROOM];
  EVP_PKEY_free(device->next_key);
  device->next_key = apus_new_key();
  device->not_before_ms = device->now_ms + RENEWAL_PAUSE_MS;
  device->advised_ms = NEVER;
  size_t length = device->next_key != NULL ? apus_certificate_request(device->next_key, request, sizeof request) : 0;
  if (length == 0 || !has_room(device, length + APUS_FRAME_HEADER + APUS_FIELD_HEADER)) return;
  apus_begin(&device->writer, APUS_RENEWAL_REQUEST);
  apus_put(&device->writer, 0x41, request, length);
  apus_end(&device->writer);
  write_output(device);
}

static void receive_certificate(
    struct apus_device *device, const struct apus_certificate_answer *answer, const struct apus_frame *frame) {
  if (answer->has_retry) device->not_before_ms = device->now_ms + UINT64_C(1000) * answer->retry_seconds;
  if (answer->status != 0 || device->next_key == NULL) return;
  const char *problem = apus_store_identity(device->config.identity_file, device->next_key, frame);
  if (problem != NULL) {
    fail(device, problem);
    return;
  }
  EVP_PKEY_free(device->next_key);
  device->next_key = NULL;
  device->renewal_ms = apus_renewal_seconds(device->config.identity_file) * 1000;
  device->has_new_identity = true;
  device->events.renewed(device->context);
}

static uint64_t renewal_due_ms(const struct apus_device *device) {
  int64_t due = device->renewal_ms - device->clock_offset_ms;
  uint64_t by_life = device->renewal_ms == 0 ? NEVER : due > 0 ? (uint64_t)due : 0;
  uint64_t first = by_life < device->advised_ms ? by_life : device->advised_ms;
  return first > device->not_before_ms ? first : device->not_before_ms;
}

// Input

static void accept_device(struct apus_device *device, const struct apus_connect_response *response) {
  if (response->status != 0) {
    device->has_base_token = false;
    device->events.base_token(device->context, NULL);
    finish_with(device, APUS_END_REFUSED, response->explanation, NULL);
    return;
  }
  if (response->token == NULL && !device->has_base_token) {
    fail(device, "the service accepted the device without a base token");
    return;
  }
  if (response->token != NULL
      && (!device->has_base_token || memcmp(device->base_token, response->token, APUS_TOKEN_BYTES) != 0)) {
    memcpy(device->base_token, response->token, APUS_TOKEN_BYTES);
    device->has_base_token = true;
    device->events.base_token(device->context, device->base_token);
  }
  device->state = APUS_STATE_SERVING;
  device->accepted_ms = device->now_ms;
  device->clock_offset_ms = (int64_t)response->server_ms - (int64_t)device->now_ms;
  device->not_before_ms = 0;
  device->advised_ms = NEVER;
  device->is_filter_due = true;
  device->is_state_due = true;
  device->unasked_tokens = device->wanted_tokens;
  device->is_change_due = device->open_change != 0;
}

static void receive(struct apus_device *device, const struct apus_message *message, const struct apus_frame *frame) {
  if (message->command == APUS_GOODBYE) {
    const struct apus_goodbye *goodbye = &message->of.goodbye;
    finish_with(
        device, APUS_END_GOODBYE, goodbye->reason, goodbye->has_delay ? &goodbye->delay_ms : NULL);
        return;
  }
  bool is_response = message->command == APUS_CONNECT_RESPONSE;
  if (is_response != (device->state == APUS_STATE_CONNECTING)) {
    fail(device, is_response ? "the service sent a second response" : "the service's first frame is no response");
    return;
  }
  switch (message->command) {
    case APUS_CONNECT_RESPONSE: accept_device(device, &message->of.response); break;
    case APUS_NOTIFICATION: receive_notification(device, &message->of.notification); break;
    case APUS_APP_TOKEN_ANSWER: receive_token(device, &message->of.token); break;
    case APUS_CHANNEL: receive_confirmation(device, &message->of.confirmation); break;
    case APUS_RENEWAL_ANSWER: receive_certificate(device, &message->of.answer, frame); break;
    case APUS_RENEWAL_ADVICE:
      device->not_before_ms = 0;
      device->advised_ms = device->now_ms + random_below(message->of.advice_seconds) * UINT64_C(1000);
      return;
    default: return;
  }
}

static void receive_bytes(struct apus_device *device, const uint8_t *bytes, size_t count) {
  while (count > 0 && device->ssl != NULL) {
    struct apus_frame frame;
    struct apus_message message;
    enum apus_fault fault = APUS_FAULT_NONE;
    struct apus_fault_place place = {0};
    enum apus_read result =
        apus_reader_take(&device->reader, &bytes, &count, apus_is_read, &frame, &fault, &place);
    if (result == APUS_READ_MORE) return;
    if (result == APUS_READ_FAULT || !apus_decode(&frame, &message, &fault, &place)) {
      fail_frame(device, fault, &place);
      return;
    }
    receive(device, &message, &frame);
    // Each message adds at most one frame, an acknowledgement.
    if (device->ssl != NULL && !has_room(device, ACKNOWLEDGEMENT_ROOM)) write_output(device);
  }
}

static void read_input(struct apus_device *device) {
  uint8_t bytes[1024];
  // The service has at most 32 unacknowledged; while their acknowledgements cannot be written, nothing is read.
  while (device->ssl != NULL && has_room(device, ACKNOWLEDGEMENT_ROOM)) {
    errno = 0;
    int count = SSL_read(device->ssl, bytes, sizeof bytes);
    if (count <= 0) {
      int error = SSL_get_error(device->ssl, count);
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
      if (error == SSL_ERROR_ZERO_RETURN) {
        fail(device, "the service closed the connection");
        return;
      }
      fail_tls(device);
      return;
    }
    device->active_ms = device->now_ms;
    device->is_asked = false;
    receive_bytes(device, bytes, (size_t)count);
  }
}

// Connecting

static void go_on_with_handshake(struct apus_device *device) {
  errno = 0;
  int code = SSL_do_handshake(device->ssl);
  if (code != 1) {
    int error = SSL_get_error(device->ssl, code);
    device->wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
    fail_tls(device);
    return;
  }
  device->state = APUS_STATE_CONNECTING;
  device->deadline_ms = device->now_ms + CONNECT_MS;
  apus_begin(&device->writer, APUS_CONNECT);
  put_base_token(device);
  apus_put_number(&device->writer, 2, 1, 1);
  apus_put_number(&device->writer, 5, 0x41, 4);
  apus_end(&device->writer);
  write_output(device);
}

static void begin_handshake(struct apus_device *device) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(device->descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    fail(device, strerror(error));
    return;
  }
  device->ssl = apus_tls_new(device->tls, device->descriptor, device->config.name);
  if (device->ssl == NULL) {
    fail(device, "out of memory");
    return;
  }
  device->state = APUS_STATE_HANDSHAKE;
  device->deadline_ms = device->now_ms + CONNECT_MS;
  go_on_with_handshake(device);
}

static void begin(struct apus_device *device) {
  if (device->has_new_identity) {
    const char *problem;
    SSL_CTX *context = apus_tls_context(device->config.authority_file, device->config.identity_file, &problem);
    if (context == NULL) {
      fail(device, problem);
      return;
    }
    SSL_CTX_free(device->tls);
    device->tls = context;
    device->has_new_identity = false;
  }
  bool is_waiting;
  device->descriptor = apus_tcp_connect(device->config.address, device->config.port, &is_waiting);
  if (device->descriptor < 0) {
    fail(device, strerror(errno));
    return;
  }
  apus_reader_init(&device->reader, device->input, sizeof device->input);
  apus_writer_init(&device->writer, device->output, sizeof device->output);
  device->written = 0;
  device->is_asked = false;
  device->active_ms = device->now_ms;
  device->state = APUS_STATE_TCP;
  device->deadline_ms = device->now_ms + CONNECT_MS;
  if (!is_waiting) begin_handshake(device);
}

// Time

static uint64_t keep_alive_due_ms(const struct apus_device *device) {
  // Only the service's bytes show that the connection lives.
  if (device->is_asked) return device->asked_ms + ANSWER_MS;
  return device->active_ms + UINT64_C(1000) * device->config.keep_alive_seconds;
}

static void keep_alive(struct apus_device *device) {
  if (device->is_asked) {
    fail(device, "the service did not answer a keep-alive");
    return;
  }
  if (!has_room(device, KEEP_ALIVE_ROOM)) return;
  apus_begin(&device->writer, APUS_KEEP_ALIVE);
  apus_put_number(&device->writer, 5, (device->config.keep_alive_seconds + 59) / 60, 2);
  apus_end(&device->writer);
  device->is_asked = true;
  device->asked_ms = device->now_ms;
  write_output(device);
}

static uint64_t due_ms(const struct apus_device *device) {
  if (device->state != APUS_STATE_SERVING) return device->deadline_ms;
  uint64_t alive = keep_alive_due_ms(device), renewal = renewal_due_ms(device);
  return alive < renewal ? alive : renewal;
}

int apus_device_timeout(const struct apus_device *device, uint64_t now_ms) {
  uint64_t due = due_ms(device);
  if (due <= now_ms) return 0;
  return due - now_ms < INT32_MAX ? (int)(due - now_ms) : INT32_MAX;
}

int apus_device_descriptor(const struct apus_device *device, short *events) {
  *events = device->state == APUS_STATE_TCP ? POLLOUT : POLLIN;
  if (device->wants_write) *events = (short)(*events | POLLOUT);
  return device->descriptor;
}

void apus_device_run(struct apus_device *device, uint64_t now_ms) {
  device->now_ms = now_ms;
  switch (device->state) {
    case APUS_STATE_WAITING:
      if (now_ms >= device->deadline_ms) begin(device);
      return;
    case APUS_STATE_TCP: {
      struct pollfd poll_descriptor = {.fd = device->descriptor, .events = POLLOUT};
      if (poll(&poll_descriptor, 1, 0) == 1) begin_handshake(device);
      break;
    }
    case APUS_STATE_HANDSHAKE: go_on_with_handshake(device); break;
    case APUS_STATE_CONNECTING:
    case APUS_STATE_SERVING:
      read_input(device);
      if (device->ssl != NULL) write_output(device);
      break;
  }
  if (device->state == APUS_STATE_WAITING) return;
  if (device->state != APUS_STATE_SERVING) {
    if (now_ms >= device->deadline_ms) fail(device, "the service did not answer in time");
    return;
  }
  if (now_ms >= keep_alive_due_ms(device)) keep_alive(device);
  if (device->state == APUS_STATE_SERVING && now_ms >= renewal_due_ms(device)) ask_for_certificate(device);
}
