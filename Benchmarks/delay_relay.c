// A TCP relay that delays every byte in both directions: a long round trip on one machine.
//
//   delay_relay LISTEN_PORT TARGET_PORT MILLISECONDS
//
// Both ports are on 127.0.0.1. Each direction has half of the delay. The bytes in flight are unbounded, as on a long
// and fast path.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { pairs_max = 64, chunk_max = 65536 };

struct chunk {
  struct chunk *next;
  uint64_t due;
  size_t count, sent;
  char bytes[];
};

struct way {
  int from, to;
  struct chunk *first, *last;
  int ended;
};

static struct way ways[2 * pairs_max];
static int way_count;
static uint64_t half_microseconds;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in place(const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void take_in(int listener, const char *target) {
  int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (client < 0 || way_count + 2 > 2 * pairs_max) die("accept");
  struct sockaddr_in address = place(target);
  int server = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(server, (struct sockaddr *)&address, sizeof address)) die("connect");
  int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ways[way_count++] = (struct way){.from = client, .to = server};
  ways[way_count++] = (struct way){.from = server, .to = client};
}

static void append(struct way *way, const char *bytes, size_t count) {
  struct chunk *chunk = malloc(sizeof *chunk + count);
  if (!chunk) die("malloc");
  *chunk = (struct chunk){.due = now() + half_microseconds, .count = count};
  memcpy(chunk->bytes, bytes, count);
  if (way->last) way->last->next = chunk;
  else way->first = chunk;
  way->last = chunk;
}

static void read_in(struct way *way) {
  static char bytes[chunk_max];
  ssize_t count = recv(way->from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) return append(way, bytes, (size_t)count);
  // The end of the stream is delayed like bytes.
  way->ended = 1;
  append(way, "", 0);
}

// Writes what is due.
static void write_out(struct way *way) {
  while (way->first && way->first->due <= now()) {
    struct chunk *chunk = way->first;
    if (chunk->count == 0) {
      shutdown(way->to, SHUT_WR);
    } else {
      ssize_t count =
        send(way->to, chunk->bytes + chunk->sent, chunk->count - chunk->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EAGAIN) return;
      if (count > 0 && (chunk->sent += (size_t)count) < chunk->count) return;
    }
    way->first = chunk->next;
    if (!way->first) way->last = NULL;
    free(chunk);
  }
}

int main(int count, char **arguments) {
  if (count != 4) {
    fprintf(stderr, "usage: delay_relay LISTEN_PORT TARGET_PORT MILLISECONDS\n");
    return 2;
  }
  half_microseconds = (uint64_t)atoi(arguments[3]) * 500;
  struct sockaddr_in address = place(arguments[1]);
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, pairs_max)) die("listen");
  for (;;) {
    struct pollfd polls[1 + 2 * pairs_max] = {{.fd = listener, .events = POLLIN}};
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < way_count; i++) {
      polls[1 + i] = (struct pollfd){.fd = ways[i].ended ? -1 : ways[i].from, .events = POLLIN};
      if (ways[i].first && ways[i].first->due < next) next = ways[i].first->due;
    }
    struct timespec wait = {.tv_sec = 1};
    uint64_t time = now();
    if (next <= time) wait = (struct timespec){.tv_nsec = 20000};  // Due but blocked: retry in a moment.
    else if (next - time < 1000000) wait = (struct timespec){.tv_nsec = (long)(next - time) * 1000};
    int known = way_count;
    if (ppoll(polls, 1 + (nfds_t)known, &wait, NULL) < 0 && errno != EINTR) die("ppoll");
    if (polls[0].revents) take_in(listener, arguments[2]);
    for (int i = 0; i < known; i++) {
      if (polls[1 + i].revents) read_in(&ways[i]);
      write_out(&ways[i]);
    }
  }
}
