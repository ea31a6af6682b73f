// What the kernel says about peers, clocks and networks.

#define _GNU_SOURCE
#include "CAgent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int apus_peer(int socket, uid_t *user, pid_t *process) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
  *user = peer.uid;
  *process = peer.pid;
  return 0;
}

int apus_accept(int socket) { return accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }

static int arm(int timer) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  // Ten years from now: the timer is there to be cancelled.
  struct itimerspec far = {.it_value = {.tv_sec = now.tv_sec + 315360000}};
  return timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
}

int apus_clock_watch(void) {
  int timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer >= 0 && arm(timer) != 0 && errno != ECANCELED) {
    close(timer);
    return -1;
  }
  return timer;
}

int apus_clock_rearm(int timer) {
  uint64_t count;
  int jumped = read(timer, &count, sizeof count) < 0 && errno == ECANCELED;
  // A jump between the two calls is reported by the second.
  if (arm(timer) != 0 && errno == ECANCELED) jumped = 1;
  return jumped;
}

int apus_network_watch(void) {
  int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (descriptor < 0) return -1;
  struct sockaddr_nl address = {
      .nl_family = AF_NETLINK,
      .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR |
                   RTMGRP_IPV6_ROUTE};
  if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

static int shakes(const struct nlmsghdr *message) {
  switch (message->nlmsg_type) {
  case RTM_DELADDR:
  case RTM_DELLINK:
    return 1;
  case RTM_NEWLINK: {
    const struct ifinfomsg *link = NLMSG_DATA(message);
    return (link->ifi_change & (IFF_UP | IFF_RUNNING)) != 0;
  }
  default:
    return 0;
  }
}

int apus_network_read(int descriptor) {
  _Alignas(struct nlmsghdr) char buffer[8192];
  int found = -1;
  while (1) {
    ssize_t count = recv(descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    // Too many at once: some are lost, so that anything may have changed.
    if (count < 0 && errno == ENOBUFS) {
      found = 1;
      continue;
    }
    if (count <= 0) return found;
    if (found < 0) found = 0;
    int left = (int)count;
    for (struct nlmsghdr *message = (struct nlmsghdr *)buffer; NLMSG_OK(message, (unsigned)left);
         message = NLMSG_NEXT(message, left)) {
      if (shakes(message)) found = 1;
    }
  }
}
