// Reads changes of subscriptions, a line each, and prints the frame that asks for each in hexadecimal digits.
//
//   INDEX TOKEN|- subscribe|unsubscribe|replace|list [TOPIC/ID]...

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define MOST_WORDS 128u

static size_t read_hex(const char *text, uint8_t *bytes) {
  size_t count = 0;
  for (unsigned byte; sscanf(text + 2 * count, "%2x", &byte) == 1; count++) bytes[count] = (uint8_t)byte;
  return count;
}

static uint32_t begin(
    struct apus_device *device, const char *kind, const struct apus_subscription *found, size_t count) {
  if (strcmp(kind, "replace") == 0) return apus_replace_subscriptions(device, found, count);
  if (strcmp(kind, "list") == 0) return apus_list_subscriptions(device);
  if (strcmp(kind, "subscribe") == 0) {
    return apus_subscribe(device, found->topic, found->channel, found->channel_length);
  }
  return apus_unsubscribe(device, found->topic, found->channel, found->channel_length);
}

int main(void) {
  static char line[8192];
  while (fgets(line, sizeof line, stdin) != NULL) {
    static uint8_t ids[MOST_WORDS][64];
    struct apus_subscription found[MOST_WORDS];
    struct apus_device device = {0};
    uint8_t frame[1024];
    size_t count = 0;
    device.last_change = (uint32_t)strtoul(strtok(line, " \n"), NULL, 10) - 1;
    const char *token = strtok(NULL, " \n"), *kind = strtok(NULL, " \n");
    device.has_base_token = read_hex(token, device.base_token) == APUS_TOKEN_BYTES;
    for (char *word; (word = strtok(NULL, " \n")) != NULL && count < MOST_WORDS; count++) {
      char *slash = strchr(word, '/');
      *slash = 0;
      size_t length = read_hex(slash + 1, ids[count]);
      found[count] = (struct apus_subscription){word, strlen(word), ids[count], length};
    }
    apus_writer_init(&device.writer, frame, sizeof frame);
    if (begin(&device, kind, found, count) != 0) apus_put_change(&device);
    for (size_t place = 0; place < device.writer.length; place++) printf("%02x", frame[place]);
    printf("\n");
  }
  return 0;
}
