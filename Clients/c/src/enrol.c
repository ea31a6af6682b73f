#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "identity.h"
#include "message.h"
#include "tls.h"

// Section 10 of the protocol: the answer comes within 40 s.
#define CONNECT_MS 20000
#define ANSWER_MS 40000
#define RETRY_SECONDS 60u
#define TEXT_MOST 64u
// A certificate with its authorities.
#define ANSWER_ROOM 16384u
#define REQUEST_ROOM 512u

struct exchange {
  SSL_CTX *context;
  const uint8_t *request;
  size_t request_length;
  // ANSWER_ROOM
  uint8_t *memory;
  SSL *ssl;
  int descriptor;
  int64_t deadline_ms;
};

static int64_t clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool wait_for(const struct exchange *exchange, short events) {
  int64_t rest = exchange->deadline_ms - clock_ms();
  struct pollfd descriptor = {.fd = exchange->descriptor, .events = events};
  errno = ETIMEDOUT;
  return rest > 0 && poll(&descriptor, 1, (int)rest) == 1;
}

// Whether to try again after an OpenSSL call that returned `code`.
static bool try_again(const struct exchange *exchange, int code) {
  switch (SSL_get_error(exchange->ssl, code)) {
    case SSL_ERROR_WANT_READ: return wait_for(exchange, POLLIN);
    case SSL_ERROR_WANT_WRITE: return wait_for(exchange, POLLOUT);
    default: return false;
  }
}

static bool connect_to(struct exchange *exchange, struct apus_address address) {
  bool is_waiting;
  exchange->deadline_ms = clock_ms() + CONNECT_MS;
  exchange->descriptor = apus_tcp_connect(address.address, address.port, &is_waiting);
  if (exchange->descriptor < 0 || (is_waiting && !wait_for(exchange, POLLOUT))) return false;
  exchange->ssl = apus_tls_new(exchange->context, exchange->descriptor, address.name);
  if (exchange->ssl == NULL) return false;
  for (int code; (errno = 0, code = SSL_do_handshake(exchange->ssl)) != 1;) {
    if (!try_again(exchange, code)) return false;
  }
  return true;
}

static bool send_request(const struct exchange *exchange) {
  for (size_t sent = 0; sent < exchange->request_length;) {
    errno = 0;
    int code = SSL_write(exchange->ssl, exchange->request + sent, (int)(exchange->request_length - sent));
    if (code > 0) {
      sent += (size_t)code;
    } else if (!try_again(exchange, code)) {
      return false;
    }
  }
  return true;
}

static bool is_answer(uint8_t command) { return command == APUS_ENROLMENT_ANSWER || command == APUS_GOODBYE; }

// Reads up to the answer, or the goodbye in its place.
static bool receive_answer(
    const struct exchange *exchange, struct apus_frame *frame, struct apus_message *message) {
  struct apus_reader reader;
  apus_reader_init(&reader, exchange->memory, ANSWER_ROOM);
  enum apus_fault fault;
  struct apus_fault_place place;
  while (true) {
    uint8_t bytes[1024];
    errno = 0;
    int code = SSL_read(exchange->ssl, bytes, sizeof bytes);
    if (code <= 0) {
      if (!try_again(exchange, code)) return false;
      continue;
    }
    const uint8_t *next = bytes;
    size_t count = (size_t)code;
    switch (apus_reader_take(&reader, &next, &count, is_answer, frame, &fault, &place)) {
      case APUS_READ_MORE: break;
      case APUS_READ_FAULT: return false;
      case APUS_READ_FRAME: return apus_decode(frame, message, &fault, &place);
    }
  }
}

static void hang_up(struct exchange *exchange) {
  SSL_free(exchange->ssl);
  exchange->ssl = NULL;
  if (exchange->descriptor >= 0) close(exchange->descriptor);
  exchange->descriptor = -1;
}

// Asks at one address after the other, until one answers. False, with the last reason in `*problem`: none did.
static bool ask(
    struct exchange *exchange, const struct apus_config *config, struct apus_frame *frame,
    struct apus_message *message, const char **problem) {
  for (size_t place = 0; place <= config->alternative_count; place++) {
    if (connect_to(exchange, apus_address_at(config, place)) && send_request(exchange)) {
      exchange->deadline_ms = clock_ms() + ANSWER_MS;
      if (receive_answer(exchange, frame, message)) return true;
    }
    apus_tls_end(problem);
    hang_up(exchange);
  }
  return false;
}

static void set_text(char *target, size_t room, const char *text, size_t length) {
  if (room > 0) snprintf(target, room, "%.*s", (int)(length < room ? length : room - 1), text);
}

static enum apus_enrolment conclude(
    const struct apus_config *config, EVP_PKEY *key, const char *key_file, const struct apus_frame *frame,
    const struct apus_message *message, uint32_t *seconds, char *text, size_t text_room) {
  if (message->command != APUS_ENROLMENT_ANSWER) {
    struct apus_text reason = message->of.goodbye.reason;
    if (reason.start != NULL) set_text(text, text_room, (const char *)reason.start, reason.length);
    return APUS_LATER;
  }
  const struct apus_certificate_answer *answer = &message->of.answer;
  if (answer->text.start != NULL) set_text(text, text_room, (const char *)answer->text.start, answer->text.length);
  if (answer->has_retry) *seconds = answer->retry_seconds;
  switch (answer->status) {
    case 0: {
      const char *problem = apus_store_identity(config->identity_file, key, frame);
      if (problem != NULL) {
        set_text(text, text_room, problem, strlen(problem));
        return APUS_LATER;
      }
      unlink(key_file);
      return APUS_ENROLLED;
    }
    case 1: return APUS_PENDING;
    // Too many, unavailable and too early can change.
    default: return answer->reason == 3 || answer->reason == 4 || answer->reason == 7 ? APUS_LATER : APUS_NOT_ENROLLED;
  }
}

static bool make_request(
    struct apus_writer *writer, EVP_PKEY *key, const char *code, const char *device_name) {
  uint8_t request[REQUEST_ROOM];
  size_t length = apus_certificate_request(key, request, sizeof request);
  if (length == 0 || (code != NULL && strlen(code) > TEXT_MOST)
      || (device_name != NULL && strlen(device_name) > TEXT_MOST)) {
    return false;
  }
  apus_begin(writer, APUS_ENROLMENT_REQUEST);
  if (code != NULL) apus_put(writer, 0x40, code, strlen(code));
  apus_put(writer, 0x41, request, length);
  if (device_name != NULL) apus_put(writer, 0x42, device_name, strlen(device_name));
  apus_end(writer);
  return !writer->is_full;
}

enum apus_enrolment apus_enrol(
    const struct apus_config *config, const char *code, const char *device_name, uint32_t *seconds, char *text,
    size_t text_room) {
  char key_file[PATH_MAX];
  uint8_t request[REQUEST_ROOM + 2 * TEXT_MOST + 16];
  struct apus_writer writer;
  const char *problem = "the name or code is too long, or there is no memory";
  enum apus_enrolment result = APUS_NOT_ENROLLED;
  *seconds = RETRY_SECONDS;
  snprintf(key_file, sizeof key_file, "%s.key", config->identity_file);
  EVP_PKEY *key = apus_kept_key(key_file);
  struct exchange exchange = {
      .context = apus_tls_context(config->authority_file, NULL, &problem),
      .request = request,
      .memory = malloc(ANSWER_ROOM),
      .descriptor = -1,
  };
  apus_writer_init(&writer, request, sizeof request);
  if (exchange.memory != NULL && key != NULL && exchange.context != NULL
      && make_request(&writer, key, code, device_name)) {
    struct apus_frame frame;
    struct apus_message message;
    exchange.request_length = writer.length;
    result = APUS_LATER;
    if (ask(&exchange, config, &frame, &message, &problem)) {
      problem = NULL;
      set_text(text, text_room, "", 0);
      result = conclude(config, key, key_file, &frame, &message, seconds, text, text_room);
    }
  }
  if (problem != NULL) set_text(text, text_room, problem, strlen(problem));
  hang_up(&exchange);
  SSL_CTX_free(exchange.context);
  EVP_PKEY_free(key);
  free(exchange.memory);
  ERR_clear_error();
  return result;
}
