/* Takes the framing off a chunked body, a byte at a time (RFC 9112 section 7.1). */
#ifndef CHUNKED_H
#define CHUNKED_H

enum chunk_state { SIZE, EXTENSION, DATA, DATA_END, TRAILER, CHUNKED_DONE };

struct chunked {
  enum chunk_state state;
  long left;        /* bytes of the chunk still to come */
  int line_bytes;   /* of the trailer line being read */
};

static int hex_digit(unsigned char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns 1 when the byte belongs to the body, 0 when it was framing. */
static int chunked_step(struct chunked *k, unsigned char c) {
  int digit;
  switch (k->state) {
    case SIZE:
      if ((digit = hex_digit(c)) >= 0) k->left = k->left * 16 + digit;
      else if (c == ';') k->state = EXTENSION;
      else if (c == '\n') k->state = k->left ? DATA : TRAILER;
      return 0;
    case EXTENSION:
      if (c == '\n') k->state = k->left ? DATA : TRAILER;
      return 0;
    case DATA:
      if (--k->left == 0) k->state = DATA_END;
      return 1;
    case DATA_END:
      if (c == '\n') k->state = SIZE;
      return 0;
    case TRAILER:
      if (c == '\n') {
        if (k->line_bytes == 0) k->state = CHUNKED_DONE;
        k->line_bytes = 0;
      } else if (c != '\r') {
        k->line_bytes++;
      }
      return 0;
    default:
      return 0;
  }
}

#endif
