#ifndef APUS_CHANNEL_H
#define APUS_CHANNEL_H

#include "apus_device.h"
#include "frame.h"

// Subscriptions to channels, in the encoding of Protocol Buffers. Section 6 of the protocol, "Channels".

// Whether bytes are a message `Subscriptions`.
bool apus_are_subscriptions(const uint8_t *message, size_t length);

// The id in a message `Channel`, empty for none. False if the bytes are no message.
bool apus_channel_id(const uint8_t *message, size_t length, const uint8_t **id, size_t *id_length);

struct apus_change {
  const struct apus_subscription *subscriptions;
  size_t count;
  bool unsubscribes;  // from these
  bool replaces;
};

// Writes a message `Subscriptions`. Returns its length; 0 if it does not fit.
size_t apus_encode_change(const struct apus_change *change, uint8_t *memory, size_t room);

#endif
