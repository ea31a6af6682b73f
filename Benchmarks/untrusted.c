// Untrusted peers that attack a listener, for bad_input.py.
//
//   untrusted KIND PORT COUNT ADDRESSES
//
// One thread keeps COUNT connections to 127.0.0.1:PORT, from 127.0.0.1 (ADDRESSES 1) or in turn from ADDRESSES of
// 127.0.1.0/24. A connection that the service ends is replaced at once. KIND selects the attack:
//   streams      open 1,000 requests without acknowledging SETTINGS, and never complete them
//   trailers     send requests whose trailers name a table entry of 4,000 bytes 120 times
//   settings     open 1,000 requests, and send SETTINGS of 2,730 entries without end
//   handshakes   send a ClientHello, the same for all, and never answer the service's flight
//   connections  connect and send nothing
// On SIGTERM it prints the numbers of made and ended connections and of sent bytes.

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
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

enum { streams = 1000, value_bytes = 4000, references = 120, entries = 2730, room = 64 * 1024 };

// The bytes to send once, and then the bytes to repeat. Each repetition has `ids` new stream ids.
struct script {
  unsigned char once[room], again[room];
  int once_count, again_count, id_offsets[16], ids, is_encrypted;
};

struct peer {
  int socket, index;
  SSL *tls;
  unsigned char *bytes;
  int count, position;
  unsigned next_id;
  char is_connected, is_again;
};

static struct script script;
static SSL_CTX *context;
static struct sockaddr_in service;
static int poller, addresses;
static unsigned long made, handshakes, ended, failed, sent;
static volatile sig_atomic_t is_over;

static void stop(int number) {
  (void)number;
  is_over = 1;
}

static void check(int good, const char *what) {
  if (good) return;
  perror(what);
  exit(1);
}

// RFC 9113, section 4.1.
static unsigned char *frame(unsigned char *to, int length, int type, int flags, unsigned id) {
  unsigned char head[9] = {(unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length,
                           (unsigned char)type, (unsigned char)flags, (unsigned char)(id >> 24),
                           (unsigned char)(id >> 16), (unsigned char)(id >> 8), (unsigned char)id};
  memcpy(to, head, sizeof head);
  return to + sizeof head;
}

// `:method: POST`, `:scheme: https` and `:path: /` of the static table (RFC 7541, appendix A).
static const unsigned char request[] = {0x83, 0x87, 0x84};

static unsigned char *open_streams(unsigned char *to) {
  for (unsigned index = 0; index < streams; index++) {
    to = frame(to, sizeof request, 1, 0x4, 1 + 2 * index);
    memcpy(to, request, sizeof request);
    to += sizeof request;
  }
  return to;
}

// The dynamic table's newest entry is 62, which is 0xbe as an indexed field (RFC 7541, section 6.1).
static unsigned char *trailers(unsigned char *to, unsigned char *start) {
  script.id_offsets[script.ids++] = (int)(to - start) + 5;
  to = frame(to, sizeof request, 1, 0x4, 0);
  memcpy(to, request, sizeof request);
  to += sizeof request;
  script.id_offsets[script.ids++] = (int)(to - start) + 5;
  to = frame(to, references, 1, 0x5, 0);
  memset(to, 0xbe, references);
  return to + references;
}

// A literal with incremental indexing: the name "x", and a value whose length is 127 + 3,873 (RFC 7541, section 5.1).
static unsigned char *fill_table(unsigned char *to) {
  static const unsigned char literal[] = {0x40, 0x01, 'x', 0x7f, 0xa1, 0x1e};
  to = frame(to, (int)(sizeof request + sizeof literal) + value_bytes, 1, 0x5, 1);
  memcpy(to, request, sizeof request);
  memcpy(to + sizeof request, literal, sizeof literal);
  memset(to + sizeof request + sizeof literal, 'v', value_bytes);
  return to + sizeof request + sizeof literal + value_bytes;
}

static unsigned char *settings(unsigned char *to) {
  to = frame(to, 6 * entries, 4, 0, 0);
  for (int index = 0; index < entries; index++) {
    unsigned char entry[6] = {0, 4, 0, 0, 0xff, (unsigned char)index};
    memcpy(to, entry, sizeof entry);
    to += sizeof entry;
  }
  return to;
}

static int client_hello(unsigned char *to) {
  SSL *tls = SSL_new(context);
  BIO *output = BIO_new(BIO_s_mem());
  SSL_set_bio(tls, BIO_new(BIO_s_mem()), output);
  SSL_set_connect_state(tls);
  SSL_do_handshake(tls);
  int count = BIO_read(output, to, room);
  SSL_free(tls);
  return count;
}

static void write_script(const char *kind) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  unsigned char *to = script.once, *repeated = script.again;
  if (!strcmp(kind, "handshakes")) script.once_count = client_hello(script.once);
  if (!strcmp(kind, "handshakes") || !strcmp(kind, "connections")) return;
  script.is_encrypted = 1;
  memcpy(to, preface, sizeof preface - 1);
  to = frame(to + sizeof preface - 1, 0, 4, 0, 0);
  if (!strcmp(kind, "trailers")) {
    to = fill_table(to);
    for (int index = 0; index < 8; index++) repeated = trailers(repeated, script.again);
  } else {
    to = open_streams(to);
    if (!strcmp(kind, "settings")) repeated = settings(repeated);
    else check(!strcmp(kind, "streams"), kind);
  }
  script.once_count = (int)(to - script.once);
  script.again_count = (int)(repeated - script.again);
}

static void watch(struct peer *peer, int operation, unsigned events) {
  struct epoll_event event = {.events = events, .data.ptr = peer};
  check(epoll_ctl(poller, operation, peer->socket, &event) == 0, "epoll_ctl");
}

static void begin(struct peer *peer) {
  struct sockaddr_in own = {.sin_family = AF_INET};
  struct linger at_once = {.l_onoff = 1};
  int on = 1, index = peer->index;
  memset(peer, 0, sizeof *peer);
  peer->index = index;
  peer->bytes = script.once;
  peer->count = script.once_count;
  peer->next_id = 3;
  peer->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  check(peer->socket >= 0, "socket");
  // Avoids TIME_WAIT, which would use up the ports of one address.
  setsockopt(peer->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  setsockopt(peer->socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  own.sin_addr.s_addr = htonl(addresses == 1 ? INADDR_LOOPBACK : 0x7f000101u + (unsigned)(index % addresses));
  check(bind(peer->socket, (struct sockaddr *)&own, sizeof own) == 0, "bind");
  if (connect(peer->socket, (struct sockaddr *)&service, sizeof service) < 0 && errno != EINPROGRESS) failed++;
  if (script.is_encrypted) {
    peer->tls = SSL_new(context);
    SSL_set_fd(peer->tls, peer->socket);
    SSL_set_connect_state(peer->tls);
  }
  made++;
  watch(peer, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT | EPOLLET);
}

static void end(struct peer *peer) {
  SSL_free(peer->tls);
  close(peer->socket);
  ended++;
  begin(peer);
}

// Whether there is more to send; repeated bytes get the next stream ids.
static int refill(struct peer *peer) {
  if (peer->position < peer->count) return 1;
  if (!script.again_count) return 0;
  for (int index = 0; index < script.ids; index++) {
    unsigned id = htonl(peer->next_id + 2 * (unsigned)(index / 2));
    memcpy(script.again + script.id_offsets[index], &id, 4);
  }
  peer->next_id += (unsigned)script.ids;
  // Repeated bytes of peers differ only in their ids, so a slower peer keeps a copy.
  if (!peer->is_again) peer->bytes = malloc((size_t)script.again_count);
  peer->is_again = 1;
  memcpy(peer->bytes, script.again, (size_t)script.again_count);
  peer->position = 0;
  peer->count = script.again_count;
  return 1;
}

static long sent_to(struct peer *peer) {
  int left = peer->count - peer->position;
  long count = peer->tls ? SSL_write(peer->tls, peer->bytes + peer->position, left)
                         : send(peer->socket, peer->bytes + peer->position, (size_t)left, MSG_NOSIGNAL);
  if (count > 0) return count;
  if (peer->tls) return SSL_get_error(peer->tls, (int)count) == SSL_ERROR_WANT_WRITE ? 0 : -1;
  return errno == EAGAIN ? 0 : -1;
}

static long received_from(struct peer *peer) {
  static unsigned char waste[room];
  long count = peer->tls ? SSL_read(peer->tls, waste, room) : recv(peer->socket, waste, room, 0);
  if (count > 0) return count;
  if (peer->tls) return SSL_get_error(peer->tls, (int)count) == SSL_ERROR_WANT_READ ? 0 : -1;
  return count < 0 && errno == EAGAIN ? 0 : -1;
}

// Whether the connection is still open.
static int serve(struct peer *peer, unsigned events) {
  long count;
  ERR_clear_error();
  if (events & (EPOLLERR | EPOLLHUP)) return 0;
  if (!peer->is_connected) {
    if (!(events & EPOLLOUT)) return 1;
    if (peer->tls) {
      int code = SSL_do_handshake(peer->tls);
      if (code != 1) return SSL_get_error(peer->tls, code) <= SSL_ERROR_WANT_WRITE
                            && SSL_get_error(peer->tls, code) != SSL_ERROR_SSL;
      handshakes++;
    }
    peer->is_connected = 1;
  }
  while ((count = received_from(peer)) > 0) {}
  if (count < 0) return 0;
  // A bounded turn for each, so that all connections attack at the same time.
  for (int turn = 0; turn < 16 && refill(peer); turn++) {
    if ((count = sent_to(peer)) < 0) return 0;
    if (count == 0) return 1;
    peer->position += (int)count;
    sent += (unsigned long)count;
  }
  if (peer->position < peer->count || script.again_count) watch(peer, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT | EPOLLET);
  return 1;
}

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: untrusted KIND PORT COUNT ADDRESSES\n");
    return 2;
  }
  static const unsigned char protocol[] = "\x02h2";
  struct rlimit descriptors;
  struct sigaction action = {.sa_handler = stop};
  int many = atoi(arguments[3]);
  addresses = atoi(arguments[4]);
  check(getrlimit(RLIMIT_NOFILE, &descriptors) == 0, "getrlimit");
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  service = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[2]))};
  service.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  context = SSL_CTX_new(TLS_client_method());
  check(context != NULL, "SSL_CTX_new");
  SSL_CTX_set_alpn_protos(context, protocol, sizeof protocol - 1);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  write_script(arguments[1]);
  poller = epoll_create1(0);
  check(poller >= 0, "epoll_create1");
  struct peer *peers = calloc((size_t)many, sizeof *peers);
  check(peers != NULL, "calloc");
  for (int index = 0; index < many; index++) {
    peers[index].index = index;
    begin(&peers[index]);
  }
  while (!is_over) {
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, -1);
    check(ready >= 0 || errno == EINTR, "epoll_wait");
    for (int index = 0; index < ready; index++) {
      struct peer *peer = events[index].data.ptr;
      if (!serve(peer, events[index].events)) {
        if (peer->is_again) free(peer->bytes);
        end(peer);
      }
    }
  }
  printf("{\"made\":%lu,\"handshakes\":%lu,\"ended\":%lu,\"failed\":%lu,\"sent\":%lu}\n", made, handshakes, ended,
         failed, sent);
  return 0;
}
