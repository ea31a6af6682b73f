#ifndef APUS_FRAME_H
#define APUS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Frames of the courier protocol, section 2: a command, a length, and fields.

#define APUS_FRAME_MOST 65536u
#define APUS_FRAME_HEADER 5u
#define APUS_FIELD_HEADER 3u

// What is wrong with a frame, by the names of section 12.
enum apus_fault {
  APUS_FAULT_NONE,
  APUS_FAULT_COMMAND_ZERO,
  APUS_FAULT_FRAME_TOO_LONG,
  APUS_FAULT_TRUNCATED_FIELD,
  APUS_FAULT_BAD_FIELD,
  APUS_FAULT_MISSING_FIELD,
  // The frame is correct, and too long for the memory of this client.
  APUS_FAULT_NO_ROOM,
};

const char *apus_fault_name(enum apus_fault fault);

// Where a fault is; members that do not belong to it are 0.
struct apus_fault_place {
  uint8_t command;
  uint8_t field;
  size_t length;
  size_t offset;
};

struct apus_frame {
  uint8_t command;
  // Valid until the next call.
  const uint8_t *body;
  size_t length;
};

// Gathers frames from bytes as they arrive. Frames whose command the client skips take no memory.
struct apus_reader {
  uint8_t *memory;
  size_t room;
  uint8_t header[APUS_FRAME_HEADER];
  size_t header_length;
  size_t length;
  size_t gathered;
};

void apus_reader_init(struct apus_reader *reader, uint8_t *memory, size_t room);

enum apus_read { APUS_READ_FAULT = -1, APUS_READ_MORE, APUS_READ_FRAME };

// Takes bytes from `*bytes` until a frame is complete. `wanted`: whether a command is one that the client reads.
enum apus_read apus_reader_take(
    struct apus_reader *reader, const uint8_t **bytes, size_t *count, bool (*wanted)(uint8_t command),
    struct apus_frame *frame, enum apus_fault *fault, struct apus_fault_place *place);

struct apus_field {
  uint8_t id;
  const uint8_t *value;
  size_t length;
};

// The field at `*offset`, which moves behind it. False at the end, or with a fault if the field is truncated.
bool apus_next_field(
    const struct apus_frame *frame, size_t *offset, struct apus_field *field, enum apus_fault *fault,
    struct apus_fault_place *place);

// Writes frames into fixed memory. Once something does not fit, nothing more is written, and `is_full` says so.
struct apus_writer {
  uint8_t *memory;
  size_t room;
  size_t length;
  size_t frame_start;
  bool is_full;
};

void apus_writer_init(struct apus_writer *writer, uint8_t *memory, size_t room);
void apus_begin(struct apus_writer *writer, uint8_t command);
void apus_put(struct apus_writer *writer, uint8_t id, const void *value, size_t length);
// A number of 1, 2 or 4 bytes.
void apus_put_number(struct apus_writer *writer, uint8_t id, uint32_t value, size_t length);
void apus_end(struct apus_writer *writer);

uint64_t apus_number(const uint8_t *value, size_t length);

#endif
