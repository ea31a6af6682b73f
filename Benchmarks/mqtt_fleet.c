// The load for mosquitto, the yardstick for delivery, memory and latency: subscribers or publishers that speak MQTT
// 3.1.1 at QoS 1 over TLS 1.3 with a client certificate. It has one thread, and is too light to affect the figures.
//
//   mqtt_fleet subscribe PORT CA CERTIFICATE KEY COUNT [FIRST [TOPIC]]
//   mqtt_fleet publish   PORT CA CERTIFICATE KEY TOPICS MESSAGES BYTES CONNECTIONS WINDOW RATE
//
// Each subscriber has a separate topic, t/FIRST and so on, or all have t/TOPIC; all share one certificate, which costs
// the broker as much as one each. When all are subscribed it prints {"subscribed":COUNT}. It acknowledges all messages,
// and prints their number on SIGTERM (the end) or SIGUSR1 (a slice: resets latencies). Publishers send to all topics in
// turn, up to WINDOW unacknowledged messages per connection, RATE per second (0: full speed), and end when all are
// acknowledged. A payload begins with its due time, CLOCK_MONOTONIC in nanoseconds, 20 digits, so a message that is
// sent late because the broker held the publisher up counts as late.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "latency.h"

enum { at_once = 64, chunk = 16384, digits = 20 };
enum state { connecting, shaking, greeting, subscribing, ready };

struct connection {
  SSL *ssl;
  int file, index;
  enum state state;
  uint16_t packet;
  uint32_t unacknowledged;
  // The rest of a packet, and bytes to write; an idle connection has neither.
  unsigned char *in, *out;
  size_t in_count, out_count;
};

static int epoll, publishes;
static SSL_CTX *context;
static struct sockaddr_in broker;
static struct connection *connections;
static int count, started, readied, first, shared = -1;
static uint64_t received, acknowledged;
static uint64_t topics, messages, sent, bytes, window, rate, began;
static volatile sig_atomic_t asked, ended;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "mqtt_fleet: %s: %s\n", what, strerror(errno));
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void tell(void) {
  printf("{\"received\":%lu,\"acknowledged\":%lu,\"latency\":{\"count\":%lu,\"p50_us\":%lu,\"p90_us\":%lu,"
         "\"p99_us\":%lu,\"p999_us\":%lu,\"max_us\":%lu}}\n",
         received, acknowledged, latency_count, percentile(0.5), percentile(0.9), percentile(0.99), percentile(0.999),
         latency_most);
  fflush(stdout);
  forget_latencies();
}

// Writing

static void watch(struct connection *one, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = one};
  check(epoll_ctl(epoll, EPOLL_CTL_MOD, one->file, &event) == 0, "epoll_ctl");
}

static void flush(struct connection *one) {
  while (one->out_count > 0) {
    size_t done = 0;
    size_t some = one->out_count > chunk ? chunk : one->out_count;
    if (SSL_write_ex(one->ssl, one->out, some, &done) != 1) {
      check(SSL_get_error(one->ssl, 0) == SSL_ERROR_WANT_WRITE, "SSL_write");
      watch(one, EPOLLIN | EPOLLOUT);
      return;
    }
    one->out_count -= done;
    memmove(one->out, one->out + done, one->out_count);
  }
  free(one->out);
  one->out = NULL;
}

static void put(struct connection *one, const void *data, size_t size) {
  // Capacity grows in chunks, so realloc is called only at chunk boundaries.
  if (one->out == NULL || (one->out_count + size) / chunk != one->out_count / chunk || one->out_count == 0)
    one->out = realloc(one->out, ((one->out_count + size) / chunk + 1) * chunk);
  check(one->out != NULL, "realloc");
  memcpy(one->out + one->out_count, data, size);
  one->out_count += size;
}

// A fixed header: type and flags, then the length of the rest, seven bits a byte.
static void put_header(struct connection *one, unsigned char type, size_t rest) {
  unsigned char header[5] = {type};
  size_t used = 1;
  do {
    header[used] = rest & 127;
    rest >>= 7;
    if (rest > 0) header[used] |= 128;
    used++;
  } while (rest > 0);
  put(one, header, used);
}

static void put_text(struct connection *one, const char *text) {
  size_t size = strlen(text);
  unsigned char prefix[2] = {(unsigned char)(size >> 8), (unsigned char)size};
  put(one, prefix, 2);
  put(one, text, size);
}

static void greet(struct connection *one) {
  char name[32];
  snprintf(name, sizeof name, "%s-%d", publishes ? "publisher" : "device", first + one->index);
  put_header(one, 0x10, 10 + 2 + strlen(name));
  // Protocol "MQTT", level 4, a clean session, and no keep-alive.
  put(one, "\0\4MQTT\4\2\0\0", 10);
  put_text(one, name);
  one->state = greeting;
  flush(one);
}

static void subscribe(struct connection *one) {
  char topic[32];
  snprintf(topic, sizeof topic, "t/%d", shared < 0 ? first + one->index : shared);
  put_header(one, 0x82, 2 + 2 + strlen(topic) + 1);
  put(one, "\0\1", 2);
  put_text(one, topic);
  put(one, "\1", 1);
  one->state = subscribing;
  flush(one);
}

static void publish(struct connection *one) {
  static char payload[65536];
  char topic[32], time[digits + 1];
  snprintf(topic, sizeof topic, "t/%lu", sent % topics);
  uint64_t due = rate > 0 ? began + (uint64_t)((double)sent * 1e9 / (double)rate) : now();
  snprintf(time, sizeof time, "%020lu", due);
  memset(payload, 'x', bytes);
  memcpy(payload, time, digits);
  if (++one->packet == 0) one->packet = 1;
  unsigned char packet[2] = {(unsigned char)(one->packet >> 8), (unsigned char)one->packet};
  put_header(one, 0x32, 2 + strlen(topic) + 2 + bytes);
  put_text(one, topic);
  put(one, packet, 2);
  put(one, payload, bytes);
  one->unacknowledged++;
  sent++;
}

// Sends what is due, as far as the windows allow.
static void pump(void) {
  static int turn;
  uint64_t due = rate > 0 ? (uint64_t)((double)(now() - began) * (double)rate / 1e9) + 1 : messages;
  if (due > messages) due = messages;
  for (int full = 0; sent < due && full < count; turn = (turn + 1) % count) {
    struct connection *one = &connections[turn];
    int some = 0;
    // A record's worth for one connection, then the next.
    while (sent < due && one->unacknowledged < window && one->out_count < chunk) {
      publish(one);
      some = 1;
    }
    full = some ? 0 : full + 1;
    if (some) flush(one);
  }
}

// Reading

static void deliver(struct connection *one, unsigned char flags, const unsigned char *body, size_t size) {
  check(size >= 2, "a PUBLISH without a topic");
  size_t topic = (size_t)body[0] << 8 | body[1], head = 2 + topic + ((flags & 6) ? 2 : 0);
  check(size >= head, "a PUBLISH that is too short");
  received++;
  if (size >= head + digits) {
    char time[digits + 1] = {0};
    memcpy(time, body + head, digits);
    uint64_t due = strtoull(time, NULL, 10), at = now();
    if (due > 0 && at > due) note_latency((at - due) / 1000);
  }
  if ((flags & 6) == 0) return;
  unsigned char answer[4] = {0x40, 2, body[2 + topic], body[3 + topic]};
  put(one, answer, 4);
  acknowledged++;
}

static void start_next(void);

static void begin_ready(struct connection *one) {
  one->state = ready;
  if (++readied == count) {
    if (!publishes) {
      printf("{\"subscribed\":%d}\n", count);
      fflush(stdout);
    }
    began = now();
  }
  start_next();
}

static void take(struct connection *one, unsigned char type, const unsigned char *body, size_t size) {
  switch (type >> 4) {
    case 2:
      check(size == 2 && body[1] == 0, "the broker refuses the connection");
      if (publishes) begin_ready(one);
      else subscribe(one);
      break;
    case 9:
      check(size == 3 && body[2] == 1, "the broker does not grant QoS 1");
      begin_ready(one);
      break;
    case 3: deliver(one, type & 15, body, size); break;
    case 4:
      acknowledged++;
      one->unacknowledged--;
      break;
    case 13: break;
    default: check(0, "a packet that nobody sends to a client");
  }
}

// Handles the complete packets at the front; returns their number of bytes.
static size_t take_all(struct connection *one, const unsigned char *data, size_t size) {
  size_t at = 0;
  while (size - at >= 2) {
    size_t length = 0, head = 1;
    int shift = 0, more = 1;
    while (more && at + head < size && head < 5) {
      length |= (size_t)(data[at + head] & 127) << shift;
      more = data[at + head] & 128;
      shift += 7;
      head++;
    }
    if (more || size - at < head + length) break;
    take(one, data[at], data + at + head, length);
    at += head + length;
  }
  return at;
}

static void read_all(struct connection *one) {
  static unsigned char buffer[2 * 65536 + 1024];
  while (1) {
    size_t have = one->in_count, more = 0;
    if (have > 0) memcpy(buffer, one->in, have);
    if (SSL_read_ex(one->ssl, buffer + have, chunk, &more) != 1) {
      check(SSL_get_error(one->ssl, 0) == SSL_ERROR_WANT_READ, "the broker ended a connection");
      break;
    }
    size_t size = have + more, taken = take_all(one, buffer, size);
    check(size - taken <= 65536, "a packet that is too large");
    one->in_count = size - taken;
    if (one->in_count > 0) {
      one->in = realloc(one->in, one->in_count);
      check(one->in != NULL, "realloc");
      memcpy(one->in, buffer + taken, one->in_count);
    }
  }
  if (one->in_count == 0) {
    free(one->in);
    one->in = NULL;
  }
  if (one->out_count > 0) flush(one);
}

// Connecting

static void start_next(void) {
  while (started < count && started - readied < at_once) {
    struct connection *one = &connections[started];
    int on = 1;
    one->index = started++;
    one->file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(one->file >= 0, "socket");
    setsockopt(one->file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(one->file, (struct sockaddr *)&broker, sizeof broker) != 0) check(errno == EINPROGRESS, "connect");
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = one};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, one->file, &event) == 0, "epoll_ctl");
    one->state = connecting;
  }
}

static void shake(struct connection *one) {
  if (one->state == connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(one->file, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    check(error == 0, "connect");
    one->ssl = SSL_new(context);
    check(one->ssl != NULL && SSL_set_fd(one->ssl, one->file), "SSL_new");
    one->state = shaking;
  }
  int code = SSL_connect(one->ssl);
  if (code == 1) {
    watch(one, EPOLLIN);
    return greet(one);
  }
  int why = SSL_get_error(one->ssl, code);
  check(why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE, "handshake");
  watch(one, why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT);
}

static void serve(struct connection *one, uint32_t events) {
  if (one->state <= shaking) return shake(one);
  if (events & EPOLLOUT) {
    watch(one, EPOLLIN);
    flush(one);
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_all(one);
}

static void on_signal(int number) {
  if (number == SIGUSR1) asked = 1;
  else ended = 1;
}

static void prepare(char **arguments) {
  broker.sin_family = AF_INET;
  broker.sin_port = htons((uint16_t)atoi(arguments[2]));
  broker.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  context = SSL_CTX_new(TLS_client_method());
  check(context != NULL && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), "SSL_CTX_new");
  check(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"), "suites");
  check(SSL_CTX_load_verify_locations(context, arguments[3], NULL), arguments[3]);
  check(SSL_CTX_use_certificate_chain_file(context, arguments[4]), arguments[4]);
  check(SSL_CTX_use_PrivateKey_file(context, arguments[5], SSL_FILETYPE_PEM), arguments[5]);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  check(epoll >= 0, "epoll_create1");
}

static int usage(void) {
  fprintf(stderr, "usage: mqtt_fleet subscribe PORT CA CERTIFICATE KEY COUNT [FIRST [TOPIC]]\n"
                  "       mqtt_fleet publish PORT CA CERTIFICATE KEY TOPICS MESSAGES BYTES CONNECTIONS WINDOW RATE\n");
  return 2;
}

int main(int arguments, char **values) {
  publishes = arguments == 12 && strcmp(values[1], "publish") == 0;
  if (!publishes && !((arguments >= 7 && arguments <= 9) && strcmp(values[1], "subscribe") == 0)) return usage();
  if (publishes) {
    topics = strtoull(values[6], NULL, 10);
    messages = strtoull(values[7], NULL, 10);
    bytes = strtoull(values[8], NULL, 10);
    count = atoi(values[9]);
    window = strtoull(values[10], NULL, 10);
    rate = strtoull(values[11], NULL, 10);
    if (topics == 0 || bytes < digits || bytes > 65000 || count < 1 || window < 1) return usage();
  } else {
    count = atoi(values[6]);
    if (arguments > 7) first = atoi(values[7]);
    if (arguments > 8) shared = atoi(values[8]);
  }
  prepare(values);
  connections = calloc((size_t)count, sizeof *connections);
  check(connections != NULL, "calloc");
  start_next();
  while (!ended && !(publishes && acknowledged == messages)) {
    struct epoll_event events[256];
    // Between due messages, a paced publisher polls a thousand times per second.
    int some = epoll_wait(epoll, events, 256, publishes && rate > 0 ? 1 : 1000);
    if (some < 0) check(errno == EINTR, "epoll_wait");
    for (int index = 0; index < some; index++) serve(events[index].data.ptr, events[index].events);
    if (publishes && readied == count) pump();
    if (asked) {
      asked = 0;
      tell();
    }
  }
  if (publishes)
    printf("{\"sent\":%lu,\"acknowledged\":%lu,\"seconds\":%.6f}\n", sent, acknowledged, (double)(now() - began) / 1e9);
  else
    tell();
  return 0;
}
