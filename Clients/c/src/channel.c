#include "channel.h"

#include <string.h>

// A field of a message. `value` is NULL unless the field holds bytes.
struct part {
  uint64_t number;
  const uint8_t *value;
  size_t length;
};

struct message {
  const uint8_t *start;
  size_t length;
  size_t offset;
};

static bool read_varint(struct message *message, uint64_t *number) {
  *number = 0;
  for (unsigned place = 0; place < 10 && message->offset < message->length; place++) {
    uint8_t byte = message->start[message->offset++];
    // The tenth byte has the last of 64 bits.
    if (place == 9 && byte > 1) return false;
    *number |= (uint64_t)(byte & 0x7f) << (7 * place);
    if (byte < 0x80) return true;
  }
  return false;
}

enum next { MALFORMED = -1, END, PART };

static enum next next(struct message *message, struct part *part) {
  uint64_t tag, length;
  if (message->offset == message->length) return END;
  if (!read_varint(message, &tag) || tag >> 3 == 0) return MALFORMED;
  *part = (struct part){.number = tag >> 3};
  switch (tag & 7) {
    case 0: return read_varint(message, &length) ? PART : MALFORMED;
    case 1: length = 8; break;
    case 2:
      if (!read_varint(message, &length)) return MALFORMED;
      break;
    case 5: length = 4; break;
    default: return MALFORMED;
  }
  if (length > message->length - message->offset) return MALFORMED;
  if ((tag & 7) == 2) part->value = message->start + message->offset;
  part->length = (size_t)length;
  message->offset += (size_t)length;
  return PART;
}

bool apus_channel_id(const uint8_t *bytes, size_t length, const uint8_t **id, size_t *id_length) {
  struct message message = {bytes, length, 0};
  struct part part;
  enum next found;
  *id = NULL;
  *id_length = 0;
  while ((found = next(&message, &part)) == PART) {
    if (part.number != 1 || part.value == NULL) continue;
    *id = part.length > 0 ? part.value : NULL;
    *id_length = part.length;
  }
  return found == END;
}

static bool is_topic(const uint8_t *bytes, size_t length) {
  struct message message = {bytes, length, 0};
  struct part part;
  enum next found;
  while ((found = next(&message, &part)) == PART) {
    const uint8_t *id;
    size_t id_length;
    bool is_channel = part.value != NULL && (part.number == 2 || part.number == 3);
    if (is_channel && !apus_channel_id(part.value, part.length, &id, &id_length)) return false;
  }
  return found == END;
}

bool apus_are_subscriptions(const uint8_t *bytes, size_t length) {
  struct message message = {bytes, length, 0};
  struct part part;
  enum next found;
  while ((found = next(&message, &part)) == PART) {
    if (part.number == 2 && part.value != NULL && !is_topic(part.value, part.length)) return false;
  }
  return found == END;
}

// The name of a topic; the last one counts.
static void name(const struct part *topic, struct apus_subscription *subscription) {
  struct message message = {topic->value, topic->length, 0};
  struct part part;
  subscription->topic = NULL;
  subscription->topic_length = 0;
  while (next(&message, &part) == PART) {
    if (part.number != 1 || part.value == NULL) continue;
    subscription->topic = (const char *)part.value;
    subscription->topic_length = part.length;
  }
}

bool apus_next_subscription(
    const struct apus_subscriptions *subscriptions, size_t *place, struct apus_subscription *subscription) {
  struct message message = {subscriptions->start, subscriptions->length, 0};
  struct part topic, channel;
  size_t passed = 0;
  while (next(&message, &topic) == PART) {
    if (topic.number != 2 || topic.value == NULL) continue;
    struct message channels = {topic.value, topic.length, 0};
    while (next(&channels, &channel) == PART) {
      if (channel.number != 2 || channel.value == NULL || passed++ < *place) continue;
      name(&topic, subscription);
      ++*place;
      return apus_channel_id(
          channel.value, channel.length, &subscription->channel, &subscription->channel_length);
    }
  }
  return false;
}

// Writing

static size_t varint_length(size_t number) { return number < 0x80 ? 1 : number < 0x4000 ? 2 : 3; }

static uint8_t *put_header(uint8_t *output, uint8_t number, size_t length) {
  *output++ = (uint8_t)(number << 3 | 2);
  for (; length >= 0x80; length >>= 7) *output++ = (uint8_t)(length & 0x7f) | 0x80;
  *output++ = (uint8_t)length;
  return output;
}

static uint8_t *put_bytes(uint8_t *output, uint8_t number, const void *value, size_t length) {
  output = put_header(output, number, length);
  memcpy(output, value, length);
  return output + length;
}

static size_t field_length(size_t length) { return 1 + varint_length(length) + length; }

static bool has_same_topic(const struct apus_subscription *left, const struct apus_subscription *right) {
  return left->topic_length == right->topic_length && memcmp(left->topic, right->topic, left->topic_length) == 0;
}

// The length of the message `Topic` for the subscriptions from `first` that have the same topic. `*end` is where they
// end. 0 if they do not fit.
static size_t topic_length(const struct apus_change *change, size_t first, size_t room, size_t *end) {
  const struct apus_subscription *start = &change->subscriptions[first];
  if (start->topic_length > room) return 0;
  size_t length = field_length(start->topic_length), place = first;
  for (; place < change->count && has_same_topic(start, &change->subscriptions[place]); place++) {
    size_t id = change->subscriptions[place].channel_length;
    if (id > room || length > room) return 0;
    length += field_length(field_length(id));
  }
  *end = place;
  return length;
}

size_t apus_encode_change(const struct apus_change *change, uint8_t *memory, size_t room) {
  uint8_t *output = memory;
  size_t fixed = change->replaces ? 4 : 2, end;
  if (room < fixed) return 0;
  *output++ = 1 << 3;
  *output++ = 1;
  for (size_t place = 0; place < change->count;) {
    const struct apus_subscription *one = &change->subscriptions[place];
    size_t length = topic_length(change, place, room, &end);
    size_t left = room - (size_t)(output - memory) - (fixed - 2);
    if (length == 0 || field_length(length) > left) return 0;
    output = put_header(output, 2, length);
    output = put_bytes(output, 1, one->topic, one->topic_length);
    for (; place < end; place++) {
      one = &change->subscriptions[place];
      output = put_header(output, change->unsubscribes ? 3 : 2, field_length(one->channel_length));
      output = put_bytes(output, 1, one->channel, one->channel_length);
    }
  }
  if (change->replaces) {
    *output++ = 3 << 3;
    *output++ = 1;
  }
  return (size_t)(output - memory);
}
