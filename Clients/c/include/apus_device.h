#ifndef APUS_DEVICE_H
#define APUS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A device of the Apus push notification service, on OpenSSL alone: no threads, bounded memory, and all waiting is left
// to the caller's poll(2). It speaks `apus-courier/1` (Documentation/courier.md, "the protocol" below).

#define APUS_TOKEN_BYTES 32
#define APUS_TOPIC_BYTES 20
// Topics of one device: more than that need a larger buffer for output.
#define APUS_MOST_TOPICS 32

// Section 6 of the protocol.
enum apus_status { APUS_TAKEN = 0, APUS_FAILED = 2, APUS_REJECTED = 3 };

// Section 7.
enum apus_power { APUS_IDLE = 0, APUS_ACTIVE = 1, APUS_LOW_POWER = 2 };

// A notification. Pointers are valid during the callback; texts do not end with a zero.
struct apus_notification {
  const uint8_t *token;  // APUS_TOKEN_BYTES: the device token that the provider used
  const uint8_t *topic;  // APUS_TOPIC_BYTES: the SHA-1 of the topic
  const uint8_t *payload;
  size_t payload_length;
  uint32_t message_id;
  bool has_expiration;
  uint32_t expiration_seconds;  // Unix time
  uint64_t accepted_nanoseconds;  // 0: unknown
  bool was_stored;  // it waited for the device, or is sent again
  bool may_be_repeated;  // the service does not know whether the device has it
  uint8_t priority;  // 10, 5 or 1; 0: unknown
  const uint8_t *id;  // the provider's apns-id, 16 bytes; NULL: none
  int push_type;  // -1: unknown
  const uint8_t *collapse_id;  // NULL: none
  size_t collapse_id_length;
  const uint8_t *channel;  // the id of the channel that it came over; NULL: none
  size_t channel_length;
};

// A channel that the device is subscribed to.
struct apus_subscription {
  const char *topic;  // without a zero at its end
  size_t topic_length;
  const uint8_t *channel;
  size_t channel_length;
};

// All subscriptions of the device, in the bytes in which they came.
struct apus_subscriptions {
  const uint8_t *start;
  size_t length;
};

// The next subscription. `*place` begins with 0. False at the end.
bool apus_next_subscription(
    const struct apus_subscriptions *subscriptions, size_t *place, struct apus_subscription *subscription);

// Why a connection ended, or was not made.
enum apus_end {
  APUS_END_NETWORK,  // waiting may help
  APUS_END_GOODBYE,  // the service said so
  APUS_END_REFUSED,  // the service refused the device; two in a row mean that waiting does not help
  APUS_END_CERTIFICATE,  // revoked, expired, or of an unknown authority: enrol again
};

// How a change of subscriptions ended, section 6. Unless it is unavailable, what could be applied was.
enum apus_change_status {
  APUS_APPLIED = 0,
  APUS_UNKNOWN_TOPIC = 1,  // or not among the device's topics
  APUS_UNKNOWN_CHANNEL = 2,
  APUS_TOO_MANY = 3,
  APUS_UNAVAILABLE = 4,  // try again later
};

struct apus_events {
  // Return the status to acknowledge the notification at once; -1: later, with `apus_acknowledge`. One that came twice
  // is shown once.
  int (*notification)(void *context, const struct apus_notification *notification);
  // The device token of an app; NULL: the service has no app with the topic.
  void (*token)(void *context, const uint8_t *topic, const uint8_t *token);
  // Store it, and give it in the next configuration; NULL: forget it.
  void (*base_token)(void *context, const uint8_t *token);
  // The service has stored a change, or answers for the list: all subscriptions of the device. May be NULL.
  void (*subscriptions)(
      void *context, uint32_t change, enum apus_change_status status, const struct apus_subscriptions *all);
  // The identity file has a new certificate.
  void (*renewed)(void *context);
  // The text is for people and logs.
  void (*ended)(void *context, enum apus_end end, const char *text);
};

// Another address of the same service.
struct apus_address {
  const char *address;  // numeric
  uint16_t port;
  const char *name;  // that the service's certificate must show there; NULL: the same as at the first address
};

struct apus_config {
  const char *address;  // numeric, because resolving a name would block
  uint16_t port;
  const char *name;  // that the service's certificate must show
  const char *authority_file;  // PEM
  const char *identity_file;  // PEM: key and certificates; replaced by a renewal
  const char *const *topics;
  size_t topic_count;
  enum apus_power power;
  const uint8_t *base_token;  // NULL: none yet
  uint32_t keep_alive_seconds;  // 0: 15 minutes
  // Where else the service is. When an address fails, the device tries the next one at once; when all have failed, it
  // waits. It stays with the one that works. One that the service names itself is tried before them if it is numeric.
  const struct apus_address *alternatives;
  size_t alternative_count;
};

struct apus_device;

// NULL, with a text in `*problem`, if a file cannot be read. The configuration is copied, what it
// points to is not.
struct apus_device *apus_device_new(
    const struct apus_config *config, const struct apus_events *events, void *context, const char **problem);
void apus_device_free(struct apus_device *device);

// What to poll for, until `apus_device_run`: a descriptor (-1: none) with its events, and at most so many milliseconds
// (-1: any).
int apus_device_descriptor(const struct apus_device *device, short *events);
int apus_device_timeout(const struct apus_device *device, uint64_t now_ms);

// Does what can be done now. `now_ms` is a clock that is never set back, which also runs during a suspension
// (CLOCK_BOOTTIME).
void apus_device_run(struct apus_device *device, uint64_t now_ms);

// For a notification whose callback returned -1. It has no effect once the connection has ended: the notification
// comes again. The library does not remember its apns-id: one that comes as `may_be_repeated` is shown again.
void apus_acknowledge(
    struct apus_device *device, uint32_t message_id, uint64_t accepted_nanoseconds, enum apus_status status);
void apus_request_token(struct apus_device *device, const char *topic);
void apus_set_power(struct apus_device *device, enum apus_power power);

// Subscriptions to channels. The topic is the app's for Live Activities, BUNDLE.push-type.liveactivity, and one of the
// device's topics; the channel's id is in bytes, not base64. Subscriptions stay until they are ended. One change at a
// time: each connection asks for it until the service has confirmed it. Returns the number that `subscriptions`
// repeats; 0 if another change is under way, or this one is too long: 45 ids of 16 bytes fit with a topic.
uint32_t apus_subscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length);
uint32_t apus_unsubscribe(struct apus_device *device, const char *topic, const uint8_t *channel, size_t length);
// Every other subscription ends; without any, all of them. What is given is copied. Begin a longer list with its first
// part, and subscribe to the rest.
uint32_t apus_replace_subscriptions(
    struct apus_device *device, const struct apus_subscription *subscriptions, size_t count);
// Asks for the list, which changes nothing.
uint32_t apus_list_subscriptions(struct apus_device *device);

void apus_topic(const char *topic, uint8_t hash[APUS_TOPIC_BYTES]);

// Getting a first certificate (section 10 of the protocol): one attempt, which blocks for at most a minute at
// each address.
enum apus_enrolment {
  APUS_ENROLLED,  // the identity file is written
  APUS_PENDING,  // the operator has not decided: try again after the seconds
  APUS_LATER,  // no answer, or a refusal that can change: try again after the seconds
  APUS_NOT_ENROLLED,  // waiting does not help
};

// The key is made at the first attempt and kept beside the identity file until there is a certificate, because only the
// same key gets it again if an answer was lost. `code` and `device_name` may be NULL. `text` has the reason.
enum apus_enrolment apus_enrol(
    const struct apus_config *config, const char *code, const char *device_name, uint32_t *seconds, char *text,
    size_t text_room);

#endif
