// The yardstick of a fan-out: a server that only calls send() with the same bytes on each of its connections in turn,
// and reads the responses, if any. This is the minimum cost of the network for any service.
//
//   fan_out CONNECTIONS ROUNDS SEND_BYTES ANSWER_BYTES SERVER_CPU PEERS_CPU
//
// The peers are in a separate process, on another processor; each responds to a message with ANSWER_BYTES (0: no
// response). The server continues when all responses of a round have arrived. It prints the CPU time of the server, in
// nanoseconds per message.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int connections, rounds, send_bytes, answer_bytes;
static char buffer[65536];

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "fan_out: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static void add(int epoll, int file, int index) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (unsigned long)index << 32 | (unsigned)file};
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) == 0, "epoll_ctl");
}

// Connects, reads messages, responds to each complete one, and ends with the server.
static void be_peers(struct sockaddr_in server) {
  int epoll = epoll_create1(0);
  int *taken = calloc((size_t)connections, sizeof *taken);
  for (int index = 0; index < connections; index++) {
    int on = 1, file = socket(AF_INET, SOCK_STREAM, 0);
    check(file >= 0 && connect(file, (struct sockaddr *)&server, sizeof server) == 0, "connect");
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    add(epoll, file, index);
  }
  while (1) {
    struct epoll_event events[256];
    int some = epoll_wait(epoll, events, 256, -1);
    for (int each = 0; each < some; each++) {
      int file = (int)(events[each].data.u64 & 0xffffffff), index = (int)(events[each].data.u64 >> 32);
      ssize_t count = recv(file, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count <= 0) exit(0);
      taken[index] += (int)count;
      for (; taken[index] >= send_bytes; taken[index] -= send_bytes)
        if (answer_bytes > 0) check(send(file, buffer, (size_t)answer_bytes, 0) == answer_bytes, "send");
    }
  }
}

static double cpu_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void take_answers(int epoll) {
  long left = (long)connections * answer_bytes;
  while (left > 0) {
    struct epoll_event events[256];
    int some = epoll_wait(epoll, events, 256, -1);
    for (int each = 0; each < some; each++) {
      ssize_t count = recv((int)(events[each].data.u64 & 0xffffffff), buffer, sizeof buffer, MSG_DONTWAIT);
      check(count > 0, "recv");
      left -= count;
    }
  }
}

static void send_all(const int *files) {
  for (int index = 0; index < connections; index++)
    while (send(files[index], buffer, (size_t)send_bytes, MSG_NOSIGNAL) != send_bytes) check(errno == EAGAIN, "send");
}

int main(int count, char **values) {
  check(count == 7, "usage: fan_out CONNECTIONS ROUNDS SEND_BYTES ANSWER_BYTES SERVER_CPU PEERS_CPU");
  connections = atoi(values[1]), rounds = atoi(values[2]), send_bytes = atoi(values[3]), answer_bytes = atoi(values[4]);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  check(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 4096) == 0, "listen");
  getsockname(listener, (struct sockaddr *)&address, &size);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(values[6]));
    be_peers(address);
  }
  pin(atoi(values[5]));
  int epoll = epoll_create1(0), *files = calloc((size_t)connections, sizeof *files);
  for (int index = 0; index < connections; index++) {
    int on = 1;
    files[index] = accept(listener, NULL, NULL);
    check(files[index] >= 0, "accept");
    setsockopt(files[index], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    add(epoll, files[index], index);
  }
  send_all(files);  // Warms caches up, not counted.
  if (answer_bytes > 0) take_answers(epoll);
  double before = cpu_nanoseconds();
  for (int round = 0; round < rounds; round++) {
    send_all(files);
    if (answer_bytes > 0) take_answers(epoll);
  }
  double spent = cpu_nanoseconds() - before;
  printf("{\"nanoseconds_each\":%.0f,\"messages\":%ld}\n", spent / rounds / connections, (long)rounds * connections);
  return 0;
}
