// A provider for measurements of latency: HTTP/2 over TLS 1.3 with a constant rate. It has one thread and makes its
// frames by hand, so that the service's lateness is measured and not the provider's own.
//
//   http2_provider PORT CA TOKENS TOPIC EXPIRATION BYTES CONNECTIONS RATE SECONDS <BEARER
//
// TOKENS is a file with a device token in each line; notifications of BYTES bytes go to them in turn, RATE per second
// (0: full speed) for SECONDS, over all connections in turn, as far as the service's limits allow. A payload contains
// its due time, CLOCK_MONOTONIC in nanoseconds, where `apus-bench fleet` looks for it, so a notification that is sent
// late because the service held the provider up counts as late. Ends with what the service said, as JSON.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "latency.h"

// RFC 9113, section 6; RFC 7541, appendix A.
enum { data_frame = 0, headers_frame = 1, settings_frame = 4, ping_frame = 6, goaway_frame = 7, window_frame = 8 };
enum { end_stream = 1, ack = 1, end_headers = 4 };
enum { header_table = 1, most_streams = 3, first_window = 4 };
enum { post = 0x83, https = 0x87, path = 0x04, new_authority = 0x41, new_authorization = 0x57, new_name = 0x40 };
// The six fields that the first request of a connection adds to the table, the last added first.
enum { added = 6, newest = 62, status_200 = 0x88, resized = 0x20 };

enum { capacity = 1 << 17, chunk = 16384, device_digits = 64, time_digits = 19, most_connections = 64, head = 9 };
enum { most_open = 1 << 16 };

struct connection {
  SSL *ssl;
  int file, has_settings;
  uint32_t next_stream, open, limit;
  int64_t window;
  // When each open request was due, by half of its stream's number.
  uint64_t due[most_open];
  unsigned char in[2 * chunk + head], out[capacity];
  size_t in_count, out_count;
};

static int epoll, count;
static struct connection *connections;
static char (*tokens)[device_digits];
static size_t token_count, bytes, time_place;
static unsigned char payload[4096];
static char bearer[1024], topic[256], expiration[32], authority[32];
static uint64_t rate, seconds, sent, accepted, began;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "http2_provider: %s: %s\n", what, strerror(errno));
  ERR_print_errors_fp(stderr);
  exit(1);
}

// Writing

static void watch(struct connection *one, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = one};
  check(epoll_ctl(epoll, EPOLL_CTL_MOD, one->file, &event) == 0, "epoll_ctl");
}

static void flush(struct connection *one) {
  size_t at = 0;
  while (at < one->out_count) {
    size_t done = 0, some = one->out_count - at > chunk ? chunk : one->out_count - at;
    if (SSL_write_ex(one->ssl, one->out + at, some, &done) != 1) {
      check(SSL_get_error(one->ssl, 0) == SSL_ERROR_WANT_WRITE, "SSL_write");
      watch(one, EPOLLIN | EPOLLOUT);
      break;
    }
    at += done;
  }
  one->out_count -= at;
  memmove(one->out, one->out + at, one->out_count);
}

static void put(struct connection *one, const void *data, size_t size) {
  check(one->out_count + size <= capacity, "too much to write");
  memcpy(one->out + one->out_count, data, size);
  one->out_count += size;
}

static void put_byte(struct connection *one, int byte) { put(one, &(unsigned char){(unsigned char)byte}, 1); }

static void put_head(struct connection *one, size_t size, int type, int flags, uint32_t stream) {
  unsigned char bytes[head] = {(unsigned char)(size >> 16), (unsigned char)(size >> 8), (unsigned char)size,
                               (unsigned char)type, (unsigned char)flags, (unsigned char)(stream >> 24),
                               (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
  put(one, bytes, head);
}

// RFC 7541, section 5.2, without Huffman code.
static void put_text(struct connection *one, const char *text) {
  size_t size = strlen(text);
  if (size < 127) {
    put_byte(one, (int)size);
  } else {
    put_byte(one, 127);
    size_t rest = size - 127;
    for (; rest >= 128; rest >>= 7) put_byte(one, (int)(rest & 127) | 128);
    put_byte(one, (int)rest);
  }
  put(one, text, size);
}

static void put_field(struct connection *one, const char *name, const char *value) {
  put_byte(one, new_name);
  put_text(one, name);
  put_text(one, value);
}

static void put_request(struct connection *one) {
  uint64_t due = rate > 0 ? began + (uint64_t)((double)sent * 1e9 / (double)rate) : now();
  uint32_t stream = one->next_stream;
  size_t begin = one->out_count;
  put_head(one, 0, headers_frame, end_headers, stream);
  put_byte(one, post);
  put_byte(one, https);
  put_byte(one, path);
  put_byte(one, 10 + device_digits);
  put(one, "/3/device/", 10);
  put(one, tokens[sent % token_count], device_digits);
  if (stream == 1) {
    put_byte(one, new_authority);
    put_text(one, authority);
    put_byte(one, new_authorization);
    put_text(one, bearer);
    put_field(one, "apns-topic", topic);
    put_field(one, "apns-push-type", "alert");
    put_field(one, "apns-priority", "10");
    put_field(one, "apns-expiration", expiration);
  } else {
    for (int field = added - 1; field >= 0; field--) put_byte(one, 0x80 | (newest + field));
  }
  size_t block = one->out_count - begin - head;
  one->out[begin + 1] = (unsigned char)(block >> 8);
  one->out[begin + 2] = (unsigned char)block;
  char time[time_digits + 1];
  snprintf(time, sizeof time, "%*lu", time_digits, due);
  memcpy(payload + time_place, time, time_digits);
  put_head(one, bytes, data_frame, end_stream, stream);
  put(one, payload, bytes);
  one->due[stream / 2 % most_open] = due;
  one->next_stream += 2;
  one->window -= (int64_t)bytes;
  one->open++;
  sent++;
}

static int may_send(const struct connection *one) {
  return one->has_settings && one->open < one->limit && one->window >= (int64_t)bytes && one->out_count < chunk;
}

// Sends what is due, as far as the service's limits allow. Says whether everything is sent.
static int pump(void) {
  static int turn;
  uint64_t elapsed = now() - began, all = rate * seconds, due = rate > 0 ? all : UINT64_MAX;
  if (rate > 0 && elapsed < seconds * 1000000000) due = (uint64_t)((double)elapsed * (double)rate / 1e9) + 1;
  if (rate > 0 && due > all) due = all;
  if (rate == 0 && elapsed >= seconds * 1000000000) return 1;
  for (int full = 0; sent < due && full < count; turn = (turn + 1) % count) {
    struct connection *one = &connections[turn];
    int some = 0;
    // A record's worth for one connection, then the next.
    while (sent < due && may_send(one)) {
      put_request(one);
      some = 1;
    }
    full = some ? 0 : full + 1;
    if (some) flush(one);
  }
  return rate > 0 && sent == all;
}

// Reading

static uint32_t number(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void take_settings(struct connection *one, const unsigned char *body, size_t size) {
  for (size_t at = 0; at + 6 <= size; at += 6) {
    int name = body[at] << 8 | body[at + 1];
    uint32_t value = number(body + at + 2);
    if (name == most_streams) one->limit = value;
    if (name == header_table) check(value >= 2048, "the service's header table is too small");
    if (name == first_window) check(value >= bytes, "the service's window of a stream is too small");
  }
  // Streams end in any order, so a slot could be taken twice if as many as there are slots were open.
  if (one->limit > most_open / 2) one->limit = most_open / 2;
  one->has_settings = 1;
  put_head(one, 0, settings_frame, ack, 0);
}

static void take_answer(struct connection *one, int flags, uint32_t stream, const unsigned char *body, size_t size) {
  size_t at = 0;
  while (at < size && (body[at] & 0xe0) == resized) at++;
  check(at < size && body[at] == status_200 && (flags & end_stream), "a notification was not accepted");
  uint64_t due = one->due[stream / 2 % most_open], at_time = now();
  note_latency(at_time > due ? (at_time - due) / 1000 : 0);
  one->open--;
  accepted++;
}

static void take(struct connection *one, const unsigned char *frame, size_t size) {
  const unsigned char *body = frame + head;
  uint32_t stream = number(frame + 5) & 0x7fffffff;
  switch (frame[3]) {
    case headers_frame: take_answer(one, frame[4], stream, body, size); break;
    case settings_frame:
      if (!(frame[4] & ack)) take_settings(one, body, size);
      break;
    case window_frame:
      if (stream == 0) one->window += number(body) & 0x7fffffff;
      break;
    case ping_frame:
      if (frame[4] & ack) break;
      put_head(one, 8, ping_frame, ack, 0);
      put(one, body, 8);
      break;
    default: check(0, frame[3] == goaway_frame ? "the service shut down" : "a frame that is not expected");
  }
}

static void read_all(struct connection *one) {
  size_t more = 0;
  while (SSL_read_ex(one->ssl, one->in + one->in_count, sizeof one->in - one->in_count, &more) == 1) {
    size_t at = 0;
    one->in_count += more;
    while (one->in_count - at >= head) {
      const unsigned char *frame = one->in + at;
      size_t size = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
      check(size <= chunk, "a frame that is too large");
      if (one->in_count - at < head + size) break;
      take(one, frame, size);
      at += head + size;
    }
    one->in_count -= at;
    memmove(one->in, one->in + at, one->in_count);
  }
  check(SSL_get_error(one->ssl, 0) == SSL_ERROR_WANT_READ, "the service ended a connection");
  if (one->out_count > 0) flush(one);
}

// Connecting

static void begin(struct connection *one, SSL_CTX *context, const struct sockaddr_in *service) {
  int on = 1;
  one->file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(one->file >= 0 && connect(one->file, (const struct sockaddr *)service, sizeof *service) == 0, "connect");
  setsockopt(one->file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  one->ssl = SSL_new(context);
  check(one->ssl != NULL && SSL_set_fd(one->ssl, one->file) && SSL_set1_host(one->ssl, "localhost"), "SSL_new");
  SSL_set_tlsext_host_name(one->ssl, "localhost");
  check(SSL_connect(one->ssl) == 1, "handshake");
  check(SOCK_NONBLOCK == O_NONBLOCK && fcntl(one->file, F_SETFL, O_NONBLOCK) == 0, "fcntl");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, one->file, &event) == 0, "epoll_ctl");
  one->next_stream = 1;
  one->limit = UINT32_MAX;
  one->window = 65535;
  put(one, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  put_head(one, 0, settings_frame, 0, 0);
  flush(one);
}

// Serves what is ready within a millisecond, because a wake-up for each notification would cost more than sending it.
static void turn(void) {
  struct epoll_event events[most_connections];
  int some = epoll_wait(epoll, events, most_connections, 1);
  if (some < 0) check(errno == EINTR, "epoll_wait");
  for (int index = 0; index < some; index++) {
    struct connection *one = events[index].data.ptr;
    if (events[index].events & EPOLLOUT) {
      watch(one, EPOLLIN);
      flush(one);
    }
    if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_all(one);
  }
}

static void read_tokens(const char *file) {
  FILE *lines = fopen(file, "r");
  char line[device_digits + 2];
  size_t room = 0;
  check(lines != NULL, file);
  while (fgets(line, sizeof line, lines) != NULL) {
    check(strcspn(line, "\n") == device_digits, "a line that is no device token");
    if (token_count == room) {
      room = room > 0 ? 2 * room : 1024;
      tokens = realloc(tokens, room * sizeof *tokens);
      check(tokens != NULL, "realloc");
    }
    memcpy(tokens[token_count++], line, device_digits);
  }
  check(token_count > 0, "no device token");
  fclose(lines);
}

static void make_payload(void) {
  const char *start = "{\"aps\":{\"alert\":\"", *end = "\"},\"sent_ns\":";
  check(bytes <= sizeof payload && bytes >= strlen(start) + strlen(end) + time_digits + 1, "BYTES");
  time_place = bytes - time_digits - 1;
  memset(payload, 'x', bytes);
  memcpy(payload, start, strlen(start));
  memcpy(payload + time_place - strlen(end), end, strlen(end));
  payload[bytes - 1] = '}';
}

static SSL_CTX *make_context(const char *authorities) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  check(context != NULL && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), "SSL_CTX_new");
  check(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"), "suites");
  check(SSL_CTX_load_verify_locations(context, authorities, NULL), authorities);
  check(SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\2h2", 3) == 0, "ALPN");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

int main(int arguments, char **values) {
  if (arguments != 10) {
    fprintf(stderr, "usage: http2_provider PORT CA TOKENS TOPIC EXPIRATION BYTES CONNECTIONS RATE SECONDS <BEARER\n");
    return 2;
  }
  struct sockaddr_in service = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(values[1]))};
  service.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  snprintf(authority, sizeof authority, "localhost:%s", values[1]);
  read_tokens(values[3]);
  snprintf(topic, sizeof topic, "%s", values[4]);
  snprintf(expiration, sizeof expiration, "%s", values[5]);
  bytes = strtoull(values[6], NULL, 10);
  count = atoi(values[7]);
  rate = strtoull(values[8], NULL, 10);
  seconds = strtoull(values[9], NULL, 10);
  check(count >= 1 && count <= most_connections && seconds >= 1, "CONNECTIONS or SECONDS");
  strcpy(bearer, "bearer ");
  check(fgets(bearer + 7, sizeof bearer - 7, stdin) != NULL, "BEARER");
  bearer[strcspn(bearer, "\n")] = 0;
  make_payload();
  signal(SIGPIPE, SIG_IGN);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  connections = calloc((size_t)count, sizeof *connections);
  check(epoll >= 0 && connections != NULL, "calloc");
  SSL_CTX *context = make_context(values[2]);
  for (int index = 0; index < count; index++) begin(&connections[index], context, &service);
  for (int index = 0; index < count; index++)
    while (!connections[index].has_settings) turn();
  began = now();
  for (int is_sent = 0; !is_sent || accepted < sent;) {
    if (!is_sent) is_sent = pump();
    turn();
  }
  double elapsed = (double)(now() - began) / 1e9;
  printf("{\"sent\":%lu,\"accepted\":%lu,\"seconds\":%.6f,\"rate\":%.3f,\"request_latency\":{\"count\":%lu,"
         "\"p50_us\":%lu,\"p90_us\":%lu,\"p99_us\":%lu,\"p999_us\":%lu,\"max_us\":%lu}}\n",
         sent, accepted, elapsed, (double)sent / elapsed, latency_count, percentile(0.5), percentile(0.9),
         percentile(0.99), percentile(0.999), latency_most);
  return 0;
}
