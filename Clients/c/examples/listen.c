// Shows notifications as lines of JSON until it is stopped.
//
//   apus-listen ADDRESS[,ADDRESS]... PORT NAME AUTHORITY IDENTITY TOPIC [CODE [CHANNEL]]
//
// AUTHORITY is the file with the service's authority (authority/service.crt), and IDENTITY the device's own file. If
// that does not exist, the device enrols. The base token is kept beside it, in IDENTITY.token. CHANNEL,
// in base64, is subscribed to, with the app's topic for Live Activities; CODE is then `-` for none.

#define _GNU_SOURCE
#include <apus_device.h>
#include <limits.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
  (void)signal;
  is_stopped = 1;
}

static void print_hex(const char *name, const uint8_t *bytes, size_t count) {
  printf("\"%s\":\"", name);
  for (size_t place = 0; place < count; place++) printf("%02x", bytes[place]);
  printf("\"");
}

static void print_base64(const uint8_t *bytes, size_t count) {
  unsigned char text[4 * ((64 + 2) / 3) + 1];
  if (count > 64) return;
  EVP_EncodeBlock(text, bytes, (int)count);
  printf("\"%s\"", (const char *)text);
}

// The bytes of an id in base64; 0 if it is none.
static size_t read_base64(const char *text, uint8_t *bytes, size_t room) {
  size_t length = strlen(text);
  if (length % 4 != 0 || length / 4 * 3 > room) return 0;
  int count = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length);
  for (; count > 0 && length > 0 && text[length - 1] == '='; length--) count--;
  return count > 0 ? (size_t)count : 0;
}

static void show_subscriptions(
    void *context, uint32_t change, enum apus_change_status status, const struct apus_subscriptions *all) {
  struct apus_subscription found;
  (void)context;
  (void)change;
  printf("{\"event\":\"subscriptions\",\"status\":%d,\"channels\":[", (int)status);
  for (size_t place = 0; apus_next_subscription(all, &place, &found);) {
    if (place > 1) printf(",");
    print_base64(found.channel, found.channel_length);
  }
  printf("]}\n");
  fflush(stdout);
}

static int show(void *context, const struct apus_notification *notification) {
  (void)context;
  printf("{\"event\":\"notification\",\"priority\":%u,\"stored\":%s,", (unsigned)notification->priority,
         notification->was_stored ? "true" : "false");
  if (notification->id != NULL) {
    print_hex("id", notification->id, 16);
    printf(",");
  }
  if (notification->channel != NULL) {
    printf("\"channel\":");
    print_base64(notification->channel, notification->channel_length);
    printf(",");
  }
  // The payload is JSON itself.
  printf("\"payload\":%.*s}\n", (int)notification->payload_length, (const char *)notification->payload);
  fflush(stdout);
  return APUS_TAKEN;
}

static void show_token(void *context, const uint8_t *topic, const uint8_t *token) {
  (void)context;
  (void)topic;
  printf("{\"event\":\"token\"");
  if (token != NULL) {
    printf(",");
    print_hex("token", token, APUS_TOKEN_BYTES);
  }
  printf("}\n");
  fflush(stdout);
}

static void keep_base_token(void *context, const uint8_t *token) {
  const char *path = context;
  FILE *file = token != NULL ? fopen(path, "we") : NULL;
  if (file == NULL) {
    unlink(path);
    return;
  }
  fwrite(token, 1, APUS_TOKEN_BYTES, file);
  fclose(file);
}

static void show_renewal(void *context) {
  (void)context;
  printf("{\"event\":\"renewed\"}\n");
  fflush(stdout);
}

static void show_end(void *context, enum apus_end end, const char *text) {
  (void)context;
  static const char *const names[] = {"network", "goodbye", "refused", "certificate"};
  printf("{\"event\":\"ended\",\"cause\":\"%s\"}\n", names[end]);
  fflush(stdout);
  fprintf(stderr, "%s: %s\n", names[end], text);
}

// The addresses after the first one, which all have its port and name.
static size_t split_addresses(char *list, uint16_t port, struct apus_address *others, size_t room) {
  size_t count = 0;
  strtok(list, ",");
  for (char *address; count < room && (address = strtok(NULL, ",")) != NULL; count++) {
    others[count] = (struct apus_address){.address = address, .port = port};
  }
  return count;
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool enrol(const struct apus_config *config, const char *code) {
  while (!is_stopped) {
    uint32_t seconds;
    char text[160];
    enum apus_enrolment result = apus_enrol(config, code, "listen", &seconds, text, sizeof text);
    if (result == APUS_ENROLLED) return true;
    fprintf(stderr, "no certificate: %s\n", text);
    if (result == APUS_NOT_ENROLLED) return false;
    sleep(seconds);
  }
  return false;
}

int main(int count, char **arguments) {
  if (count < 7) {
    fprintf(
        stderr, "usage: %s ADDRESS[,ADDRESS]... PORT NAME AUTHORITY IDENTITY TOPIC [CODE [CHANNEL]]\n", arguments[0]);
    return 2;
  }
  struct sigaction action = {.sa_handler = stop};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  uint8_t channel[64];
  size_t channel_length = count > 8 ? read_base64(arguments[8], channel, sizeof channel) : 0;
  if (count > 8 && channel_length == 0) {
    fprintf(stderr, "CHANNEL is not base64\n");
    return 2;
  }
  char live_topic[256];
  snprintf(live_topic, sizeof live_topic, "%s.push-type.liveactivity", arguments[6]);
  const char *topics[] = {arguments[6], live_topic};
  uint16_t port = (uint16_t)strtoul(arguments[2], NULL, 10);
  struct apus_address others[8];
  size_t other_count = split_addresses(arguments[1], port, others, sizeof others / sizeof *others);
  struct apus_config config = {
      .address = arguments[1],
      .port = port,
      .alternatives = others,
      .alternative_count = other_count,
      .name = arguments[3],
      .authority_file = arguments[4],
      .identity_file = arguments[5],
      .topics = topics,
      .topic_count = channel_length > 0 ? 2 : 1,
      .power = APUS_ACTIVE,
  };
  const char *code = count > 7 && strcmp(arguments[7], "-") != 0 ? arguments[7] : NULL;
  if (access(config.identity_file, R_OK) != 0 && !enrol(&config, code)) return 1;

  char token_file[PATH_MAX];
  uint8_t token[APUS_TOKEN_BYTES];
  snprintf(token_file, sizeof token_file, "%s.token", config.identity_file);
  FILE *file = fopen(token_file, "re");
  if (file != NULL) {
    if (fread(token, 1, sizeof token, file) == sizeof token) config.base_token = token;
    fclose(file);
  }
  struct apus_events events = {
      .notification = show, .token = show_token, .base_token = keep_base_token, .renewed = show_renewal,
      .ended = show_end, .subscriptions = show_subscriptions};
  const char *problem;
  struct apus_device *device = apus_device_new(&config, &events, token_file, &problem);
  if (device == NULL) {
    fprintf(stderr, "%s\n", problem);
    return 1;
  }
  apus_request_token(device, topics[0]);
  if (channel_length > 0) apus_subscribe(device, live_topic, channel, channel_length);
  while (!is_stopped) {
    struct pollfd descriptor;
    descriptor.fd = apus_device_descriptor(device, &descriptor.events);
    poll(&descriptor, descriptor.fd >= 0 ? 1 : 0, apus_device_timeout(device, now_ms()));
    apus_device_run(device, now_ms());
  }
  apus_device_free(device);
  return 0;
}
