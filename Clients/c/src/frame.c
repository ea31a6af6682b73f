#include "frame.h"

#include <string.h>

const char *apus_fault_name(enum apus_fault fault) {
  switch (fault) {
    case APUS_FAULT_NONE: return "none";
    case APUS_FAULT_COMMAND_ZERO: return "commandZero";
    case APUS_FAULT_FRAME_TOO_LONG: return "frameTooLong";
    case APUS_FAULT_TRUNCATED_FIELD: return "truncatedField";
    case APUS_FAULT_BAD_FIELD: return "badField";
    case APUS_FAULT_MISSING_FIELD: return "missingField";
    case APUS_FAULT_NO_ROOM: return "noRoom";
  }
  return "unknown";
}

uint64_t apus_number(const uint8_t *value, size_t length) {
  uint64_t number = 0;
  for (size_t place = 0; place < length; place++) number = number << 8 | value[place];
  return number;
}

// Reading

void apus_reader_init(struct apus_reader *reader, uint8_t *memory, size_t room) {
  *reader = (struct apus_reader){.memory = memory, .room = room};
}

static size_t least(size_t one, size_t other) { return one < other ? one : other; }

enum apus_read apus_reader_take(
    struct apus_reader *reader, const uint8_t **bytes, size_t *count, bool (*wanted)(uint8_t command),
    struct apus_frame *frame, enum apus_fault *fault, struct apus_fault_place *place) {
  while (*count > 0) {
    if (reader->header_length < APUS_FRAME_HEADER) {
      reader->header[reader->header_length++] = **bytes;
      ++*bytes;
      --*count;
      if (reader->header[0] == 0) {
        *fault = APUS_FAULT_COMMAND_ZERO;
        return APUS_READ_FAULT;
      }
      if (reader->header_length < APUS_FRAME_HEADER) continue;
      reader->length = (size_t)apus_number(reader->header + 1, 4);
      reader->gathered = 0;
      place->command = reader->header[0];
      place->length = reader->length;
      if (reader->length > APUS_FRAME_MOST) {
        *fault = APUS_FAULT_FRAME_TOO_LONG;
        return APUS_READ_FAULT;
      }
      if (wanted(reader->header[0]) && reader->length > reader->room) {
        *fault = APUS_FAULT_NO_ROOM;
        return APUS_READ_FAULT;
      }
    }
    bool is_wanted = wanted(reader->header[0]);
    size_t part = least(*count, reader->length - reader->gathered);
    if (is_wanted && part > 0) memcpy(reader->memory + reader->gathered, *bytes, part);
    reader->gathered += part;
    *bytes += part;
    *count -= part;
    if (reader->gathered < reader->length) return APUS_READ_MORE;
    reader->header_length = 0;
    if (!is_wanted) continue;
    *frame = (struct apus_frame){reader->header[0], reader->memory, reader->length};
    return APUS_READ_FRAME;
  }
  return APUS_READ_MORE;
}

bool apus_next_field(
    const struct apus_frame *frame, size_t *offset, struct apus_field *field, enum apus_fault *fault,
    struct apus_fault_place *place) {
  size_t rest = frame->length - *offset;
  if (rest == 0) return false;
  const uint8_t *start = frame->body + *offset;
  size_t length = rest < APUS_FIELD_HEADER ? 0 : (size_t)apus_number(start + 1, 2);
  if (rest < APUS_FIELD_HEADER + length) {
    *fault = APUS_FAULT_TRUNCATED_FIELD;
    *place = (struct apus_fault_place){.command = frame->command, .offset = *offset};
    return false;
  }
  *field = (struct apus_field){start[0], start + APUS_FIELD_HEADER, length};
  *offset += APUS_FIELD_HEADER + length;
  return true;
}

// Writing

void apus_writer_init(struct apus_writer *writer, uint8_t *memory, size_t room) {
  *writer = (struct apus_writer){.memory = memory, .room = room};
}

static void put(struct apus_writer *writer, const void *bytes, size_t count) {
  if (writer->is_full || writer->room - writer->length < count) {
    writer->is_full = true;
    return;
  }
  if (count > 0) memcpy(writer->memory + writer->length, bytes, count);
  writer->length += count;
}

static void put_number(struct apus_writer *writer, uint32_t value, size_t length) {
  for (size_t place = length; place > 0; place--) {
    uint8_t byte = (uint8_t)(value >> (8 * (place - 1)));
    put(writer, &byte, 1);
  }
}

void apus_begin(struct apus_writer *writer, uint8_t command) {
  writer->frame_start = writer->length;
  put(writer, &command, 1);
  put_number(writer, 0, 4);
}

void apus_put(struct apus_writer *writer, uint8_t id, const void *value, size_t length) {
  if (length > UINT16_MAX) {
    writer->is_full = true;
    return;
  }
  put(writer, &id, 1);
  put_number(writer, (uint32_t)length, 2);
  put(writer, value, length);
}

void apus_put_number(struct apus_writer *writer, uint8_t id, uint32_t value, size_t length) {
  put(writer, &id, 1);
  put_number(writer, (uint32_t)length, 2);
  put_number(writer, value, length);
}

void apus_end(struct apus_writer *writer) {
  if (writer->is_full) return;
  size_t end = writer->length;
  size_t length = end - writer->frame_start - APUS_FRAME_HEADER;
  writer->length = writer->frame_start + 1;
  put_number(writer, (uint32_t)length, 4);
  writer->length = end;
}
