#define _GNU_SOURCE
#include "device.h"

#include <arpa/inet.h>
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

#include "identity.h"
#include "tls.h"

// Sections 9 and 11 of the protocol.
#define CONNECT_MS 10000u
#define ANSWER_MS 30000u
#define STEADY_MS 30000u
#define FIRST_BACKOFF_MS 1000u
#define MOST_BACKOFF_MS 300000u
#define KEEP_ALIVE_SECONDS 900u
#define KEEP_ALIVE_ROOM 10u
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
  apus_rotation_init(&device->rotation, 1 + config->alternative_count);
  device->advised_ms = APUS_NEVER;
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

// Where the next connection goes.
static struct apus_address current_address(const struct apus_device *device) {
  struct apus_address address = apus_address_at(&device->config, device->rotation.current);
  if (device->rotation.is_at_hint) {
    // The service has its certificate there, too.
    address.address = device->hint;
    address.port = device->hint_port;
  }
  return address;
}

// Keeps HOST:PORT if HOST is numeric: resolving a name would block.
static bool read_hint(struct apus_device *device, struct apus_text text) {
  char copy[sizeof device->hint + 8];
  if (text.length == 0 || text.length >= sizeof copy) return false;
  memcpy(copy, text.start, text.length);
  copy[text.length] = '\0';
  char *colon = strrchr(copy, ':'), *host = copy, *end;
  if (colon == NULL) return false;
  *colon = '\0';
  if (*host == '[' && colon > host + 1 && colon[-1] == ']') {
    host++;
    colon[-1] = '\0';
  }
  unsigned long port = strtoul(colon + 1, &end, 10);
  struct in6_addr number;
  bool is_numeric = inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1;
  if (!is_numeric || *end != '\0' || port == 0 || port > 65535) return false;
  strcpy(device->hint, host);
  device->hint_port = (uint16_t)port;
  return true;
}

// Whether another attempt follows at once. What is said about the device is the same at each address.
static bool has_next_address(struct apus_device *device, enum apus_end end, bool was_steady, bool was_silent) {
  if (end != APUS_END_NETWORK) {
    apus_rotation_restart(&device->rotation);
    return false;
  }
  if (was_steady && was_silent) return apus_rotation_fell_silent(&device->rotation);
  return apus_rotation_failed(&device->rotation, was_steady);
}

// Ends the connection. The next one follows at once at another address, or after a wait: as long as the service asked
// for, or by the back-off.
static void finish(struct apus_device *device, enum apus_end end, const char *text, const uint32_t *delay_ms) {
  if (device->ssl != NULL && device->state == APUS_STATE_SERVING) SSL_shutdown(device->ssl);
  ERR_clear_error();
  close_connection(device);
  bool was_steady = device->state == APUS_STATE_SERVING && device->now_ms - device->accepted_ms >= STEADY_MS;
  device->state = APUS_STATE_WAITING;
  if (was_steady) device->backoff_ms = FIRST_BACKOFF_MS;
  if (has_next_address(device, end, was_steady, device->is_asked)) {
    device->deadline_ms = device->now_ms;
  } else if (delay_ms != NULL) {
    device->backoff_ms = FIRST_BACKOFF_MS;
    device->deadline_ms = device->now_ms + (*delay_ms < MOST_BACKOFF_MS ? *delay_ms : MOST_BACKOFF_MS);
  } else {
    // "Try rarely" where waiting does not help.
    if (end == APUS_END_CERTIFICATE) device->backoff_ms = MOST_BACKOFF_MS;
    uint32_t wait = device->backoff_ms;
    device->backoff_ms = wait * 2 < MOST_BACKOFF_MS ? wait * 2 : MOST_BACKOFF_MS;
    device->deadline_ms = device->now_ms + wait / 2 + random_below(wait / 2 + 1);
  }
  device->events.ended(device->context, end, text);
}

void apus_fail(struct apus_device *device, const char *text) { finish(device, APUS_END_NETWORK, text, NULL); }

void apus_fail_tls(struct apus_device *device) {
  const char *text;
  enum apus_end end = apus_tls_end(&text);
  finish(device, end, text, NULL);
}

static void fail_frame(struct apus_device *device, enum apus_fault fault, const struct apus_fault_place *place) {
  char text[TEXT_ROOM];
  snprintf(
      text, sizeof text, "the service sent a malformed frame: %s, command %u, field %u", apus_fault_name(fault),
      (unsigned)place->command, (unsigned)place->field);
  apus_fail(device, text);
}

static void finish_with(
    struct apus_device *device, enum apus_end end, struct apus_text reason, const uint32_t *delay_ms) {
  char text[TEXT_ROOM];
  int length = reason.length < sizeof text ? (int)reason.length : (int)sizeof text - 1;
  snprintf(text, sizeof text, "%.*s", length, reason.start != NULL ? (const char *)reason.start : "");
  finish(device, end, text, delay_ms);
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
  if (device->state == APUS_STATE_SERVING) apus_write_output(device);
}

void apus_set_power(struct apus_device *device, enum apus_power power) {
  device->config.power = power;
  device->is_state_due = true;
  if (device->state == APUS_STATE_SERVING) apus_write_output(device);
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

// Input

static void accept_device(struct apus_device *device, const struct apus_connect_response *response) {
  apus_rotation_answered(&device->rotation);
  if (response->status != 0) {
    device->has_base_token = false;
    device->events.base_token(device->context, NULL);
    finish_with(device, APUS_END_REFUSED, response->explanation, NULL);
    return;
  }
  if (response->token == NULL && !device->has_base_token) {
    apus_fail(device, "the service accepted the device without a base token");
    return;
  }
  if (response->token != NULL
      && (!device->has_base_token || memcmp(device->base_token, response->token, APUS_TOKEN_BYTES) != 0)) {
    memcpy(device->base_token, response->token, APUS_TOKEN_BYTES);
    device->has_base_token = true;
    device->events.base_token(device->context, device->base_token);
  }
  if (read_hint(device, response->hint)) {
    apus_rotation_hinted(&device->rotation, true);
  } else if (!device->rotation.is_at_hint) {
    apus_rotation_hinted(&device->rotation, false);
  }
  device->state = APUS_STATE_SERVING;
  device->accepted_ms = device->now_ms;
  device->clock_offset_ms = (int64_t)response->server_ms - (int64_t)device->now_ms;
  device->not_before_ms = 0;
  device->advised_ms = APUS_NEVER;
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
    apus_fail(device, is_response ? "the service sent a second response" : "the service's first frame is no response");
    return;
  }
  switch (message->command) {
    case APUS_CONNECT_RESPONSE: accept_device(device, &message->of.response); break;
    case APUS_NOTIFICATION: apus_receive_notification(device, &message->of.notification); break;
    case APUS_APP_TOKEN_ANSWER: receive_token(device, &message->of.token); break;
    case APUS_CHANNEL: apus_receive_confirmation(device, &message->of.confirmation); break;
    case APUS_RENEWAL_ANSWER: apus_receive_certificate(device, &message->of.answer, frame); break;
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
    if (device->ssl != NULL && !apus_has_room(device, APUS_ACKNOWLEDGEMENT_ROOM)) apus_write_output(device);
  }
}

static void read_input(struct apus_device *device) {
  uint8_t bytes[1024];
  // The service has at most 32 unacknowledged; while their acknowledgements cannot be written, nothing is read.
  while (device->ssl != NULL && apus_has_room(device, APUS_ACKNOWLEDGEMENT_ROOM)) {
    errno = 0;
    int count = SSL_read(device->ssl, bytes, sizeof bytes);
    if (count <= 0) {
      int error = SSL_get_error(device->ssl, count);
      if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
      if (error == SSL_ERROR_ZERO_RETURN) {
        apus_fail(device, "the service closed the connection");
        return;
      }
      apus_fail_tls(device);
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
    apus_fail_tls(device);
    return;
  }
  device->state = APUS_STATE_CONNECTING;
  device->deadline_ms = device->now_ms + CONNECT_MS;
  apus_begin(&device->writer, APUS_CONNECT);
  apus_put_base_token(device);
  apus_put_number(&device->writer, 2, 1, 1);
  apus_put_number(&device->writer, 5, 0x41, 4);
  apus_end(&device->writer);
  apus_write_output(device);
}

static void begin_handshake(struct apus_device *device) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(device->descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    apus_fail(device, strerror(error));
    return;
  }
  const char *name = current_address(device).name;
  device->ssl = apus_tls_new(device->tls, device->descriptor, name);
  if (device->ssl == NULL) {
    apus_fail(device, "out of memory");
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
      apus_fail(device, problem);
      return;
    }
    SSL_CTX_free(device->tls);
    device->tls = context;
    device->has_new_identity = false;
  }
  bool is_waiting;
  struct apus_address address = current_address(device);
  device->is_asked = false;
  device->descriptor = apus_tcp_connect(address.address, address.port, &is_waiting);
  if (device->descriptor < 0) {
    apus_fail(device, strerror(errno));
    return;
  }
  apus_reader_init(&device->reader, device->input, sizeof device->input);
  apus_writer_init(&device->writer, device->output, sizeof device->output);
  device->written = 0;
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
    apus_fail(device, "the service did not answer a keep-alive");
    return;
  }
  if (!apus_has_room(device, KEEP_ALIVE_ROOM)) return;
  apus_begin(&device->writer, APUS_KEEP_ALIVE);
  apus_put_number(&device->writer, 5, (device->config.keep_alive_seconds + 59) / 60, 2);
  apus_end(&device->writer);
  device->is_asked = true;
  device->asked_ms = device->now_ms;
  apus_write_output(device);
}

static uint64_t due_ms(const struct apus_device *device) {
  if (device->state != APUS_STATE_SERVING) return device->deadline_ms;
  uint64_t alive = keep_alive_due_ms(device), renewal = apus_renewal_due_ms(device);
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
      if (device->ssl != NULL) apus_write_output(device);
      break;
  }
  if (device->state == APUS_STATE_WAITING) return;
  if (device->state != APUS_STATE_SERVING) {
    if (now_ms >= device->deadline_ms) apus_fail(device, "the service did not answer in time");
    return;
  }
  if (now_ms >= keep_alive_due_ms(device)) keep_alive(device);
  if (device->state == APUS_STATE_SERVING && now_ms >= apus_renewal_due_ms(device)) apus_ask_for_certificate(device);
}
