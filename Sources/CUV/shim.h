#include <malloc.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

// glibc declares these two only under _GNU_SOURCE, which Swift's Glibc module is built without. The asm labels bind
// our own names to the same symbols, so that the declarations cannot conflict with glibc's.

/// accept4(2).
extern int cuv_accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags)
    __asm__("accept4");

/// pthread_setname_np(3): at most 15 bytes and the terminator.
extern int cuv_pthread_setname(pthread_t thread, const char *name) __asm__("pthread_setname_np");

// `struct epoll_event` is packed and holds a union, so Swift does not read its fields.

/// epoll_ctl(2): 0 or -1 and `errno`.
static inline int cuv_epoll_control(int epoll, int operation, int descriptor, uint32_t events,
                                    uint64_t data) {
  struct epoll_event event = {.events = events, .data = {.u64 = data}};
  return epoll_ctl(epoll, operation, descriptor, &event);
}

static inline uint32_t cuv_epoll_events(const struct epoll_event *event) { return event->events; }

static inline uint64_t cuv_epoll_data(const struct epoll_event *event) { return event->data.u64; }

// glibc before 2.41 declares neither `struct sched_attr` nor the two calls for it.

/// The first version of `struct sched_attr` (sched_setattr(2)).
struct cuv_scheduling {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

/// sched_getattr(2) of the calling thread: 0 or -1 and `errno`.
static inline int cuv_get_scheduling(struct cuv_scheduling *attributes) {
  return (int)syscall(SYS_sched_getattr, 0, attributes, sizeof *attributes, 0);
}

/// sched_setattr(2) of the calling thread: 0 or -1 and `errno`.
static inline int cuv_set_scheduling(struct cuv_scheduling *attributes) {
  return (int)syscall(SYS_sched_setattr, 0, attributes, 0);
}
