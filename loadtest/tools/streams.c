/* Keeps streamed chat completions running on many connections, and says what
 * the relay between added to each event, and whether one was lost or late.
 *
 *   cc -O2 -o streams streams.c
 *   ./streams PORT --conns N [--mode timed|once|hold] [--seconds S] [--warmup S]
 *             [--events 64] [--stall-ms 500] [--body-bytes 450]
 *
 * timed: a new stream follows each that ends; figures are taken over S seconds
 *        after the warm-up.
 * once:  one stream on each connection; over when all have ended, or after S.
 * hold:  sends all requests, and is over when all heads have come, or after S.
 *
 * Prints one JSON line {"phase":"begin"} when the measured time begins, and one
 * with the figures when it ends. Then it keeps its connections open until its
 * standard input is closed, so that who started it can look at the relay first.
 * "added" is the time from the worker's write to the read here, on the one
 * monotonic clock of the machine.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "chunked.h"

#define SAMPLES 4000000
#define HEAD_BYTES 4096
#define LINE_BYTES 512
#define MS 1000000L

enum mode { TIMED, ONCE, HOLD };

struct conn {
  int fd, has_head, has_done, is_ended; /* is_ended: asks for no more */
  int is_spoilt;                        /* stalled, lost or reordered */
  int expected;                         /* seq of the next event */
  long asked_ns, last_ns;
  struct chunked framing;
  int head_used, line_used;
  char head[HEAD_BYTES], line[LINE_BYTES];
};

static struct {
  long events, streams, smooth, stalls, lost, reordered, errors, heads;
  long max_gap_ns, added_n, ttfb_n;
} tally;

static int *added_us, *ttfb_us;
static struct conn *conns;
static int ep, port, n_conns = 1, n_events = 64, body_bytes = 450;
static int n_ended; /* connections that are through, in once and hold */
static long stall_ns = 500 * MS;
static double seconds = 5, warmup = 0;
static enum mode mode = TIMED;
static char *request;
static int request_bytes;

static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void build_request(void) {
  char *body = malloc(body_bytes + 512);
  int n = sprintf(body, "{\"model\":\"sim\",\"stream\":true,\"max_tokens\":100,"
                        "\"messages\":[{\"role\":\"user\",\"content\":\"");
  while (n < body_bytes - 4) body[n++] = 'a';
  n += sprintf(body + n, "\"}]}");
  request = malloc(n + 512);
  request_bytes = sprintf(request,
                          "POST /v1/chat/completions HTTP/1.1\r\n"
                          "Host: 127.0.0.1:%d\r\n"
                          "Content-Type: application/json\r\n"
                          "Accept: text/event-stream\r\n"
                          "Content-Length: %d\r\n\r\n", port, n);
  memcpy(request + request_bytes, body, n);
  request_bytes += n;
  free(body);
}

static void ask(struct conn *c) {
  c->has_head = c->has_done = c->is_spoilt = 0;
  c->expected = c->head_used = c->line_used = 0;
  memset(&c->framing, 0, sizeof c->framing);
  c->last_ns = 0;
  c->asked_ns = now_ns();
  /* A send that fails shows as an end of the stream on the next read. */
  send(c->fd, request, request_bytes, MSG_NOSIGNAL);
}

static void dial(struct conn *c) {
  int one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_port = htons(port),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct epoll_event e = {.events = EPOLLIN, .data.u32 = c - conns};
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (void *)&a, sizeof a)) {
    perror("streams: cannot connect");
    exit(1);
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}

static void end_conn(struct conn *c) {
  close(c->fd);
  c->fd = -1;
  if (!c->is_ended) {
    c->is_ended = 1;
    n_ended++;
  }
}

/* A broken stream counts once; its connection is not used again. */
static void fail(struct conn *c) {
  tally.errors++;
  if (c->has_head && mode != HOLD) tally.lost += n_events - c->expected;
  end_conn(c);
}

static void on_event(struct conn *c, const char *line, long now) {
  const char *t = strstr(line, "\"t\":"), *s = strstr(line, "\"seq\":");
  if (!t || !s) return;
  int seq = atoi(s + 6);
  long gap = c->last_ns ? now - c->last_ns : 0;
  c->last_ns = now;
  tally.events++;
  if (tally.added_n < SAMPLES)
    added_us[tally.added_n++] = (now - atol(t + 4)) / 1000;
  if (gap > tally.max_gap_ns) tally.max_gap_ns = gap;
  if (gap > stall_ns) {
    tally.stalls++;
    c->is_spoilt = 1;
  }
  if (seq < c->expected) {
    tally.reordered++;
    c->is_spoilt = 1;
    return;
  }
  if (seq > c->expected) {
    tally.lost += seq - c->expected;
    c->is_spoilt = 1;
  }
  c->expected = seq + 1;
}

static void on_line(struct conn *c, long now) {
  c->line[c->line_used] = 0;
  if (!strncmp(c->line, "data: {", 7)) {
    on_event(c, c->line, now);
  } else if (!strcmp(c->line, "data: [DONE]")) {
    c->has_done = 1;
  }
}

static void on_stream_end(struct conn *c) {
  tally.streams++;
  if (c->expected < n_events) tally.lost += n_events - c->expected;
  else if (c->has_done && !c->is_spoilt) tally.smooth++;
  if (mode == TIMED) {
    ask(c);
  } else if (!c->is_ended) {
    c->is_ended = 1;
    n_ended++;
  }
}

/* Gathers the response head; returns how many bytes of data it took. */
static int on_head(struct conn *c, const char *data, int n) {
  int i = 0;
  while (i < n && c->head_used < HEAD_BYTES - 1) {
    c->head[c->head_used++] = data[i++];
    if (c->head_used >= 4 && !memcmp(c->head + c->head_used - 4, "\r\n\r\n", 4)) {
      c->head[c->head_used] = 0;
      if (strncmp(c->head, "HTTP/1.1 200", 12) ||
          !strcasestr(c->head, "\r\ntransfer-encoding: chunked\r\n"))
        return -1;
      c->has_head = 1;
      tally.heads++;
      if (mode == HOLD && !c->is_ended) {
        c->is_ended = 1;
        n_ended++;
      }
      return i;
    }
  }
  return c->head_used < HEAD_BYTES - 1 ? i : -1;
}

static void on_data(struct conn *c, const char *data, int n, long now) {
  int i = 0;
  if (!c->has_head) {
    if (!c->head_used && tally.ttfb_n < SAMPLES)
      ttfb_us[tally.ttfb_n++] = (now - c->asked_ns) / 1000;
    if ((i = on_head(c, data, n)) < 0) {
      fail(c);
      return;
    }
    if (!c->has_head) return;
  }
  for (; i < n && c->framing.state != CHUNKED_DONE; i++) {
    if (!chunked_step(&c->framing, data[i])) continue;
    if (data[i] == '\n') {
      on_line(c, now);
      c->line_used = 0;
    } else if (c->line_used < LINE_BYTES - 1) {
      c->line[c->line_used++] = data[i];
    }
  }
  if (c->framing.state == CHUNKED_DONE) on_stream_end(c);
}

static void on_readable(struct conn *c) {
  static char data[1 << 17];
  int n = recv(c->fd, data, sizeof data, MSG_DONTWAIT);
  if (n > 0) {
    on_data(c, data, n, now_ns());
  } else if (n < 0 && errno == EAGAIN) {
    return;
  } else if (mode == TIMED && !c->head_used) {
    /* Closed between two streams: legal, so the stream starts afresh. */
    close(c->fd);
    dial(c);
    ask(c);
  } else if (c->is_ended) {
    end_conn(c);
  } else {
    fail(c);
  }
}

static void run_until(long end_ns, int stop_when_ended) {
  struct epoll_event ready[512];
  while (now_ns() < end_ns && !(stop_when_ended && n_ended >= n_conns)) {
    int n = epoll_wait(ep, ready, 512, 20);
    for (int k = 0; k < n; k++) {
      struct conn *c = &conns[ready[k].data.u32];
      if (c->fd >= 0) on_readable(c);
    }
  }
}

static int by_value(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

static int percentile(const int *sorted, long n, double q) {
  return n ? sorted[(long)(n * q)] : 0;
}

static void say_figures(double elapsed) {
  qsort(added_us, tally.added_n, sizeof(int), by_value);
  qsort(ttfb_us, tally.ttfb_n, sizeof(int), by_value);
  printf("{\"phase\":\"end\",\"conns\":%d,\"seconds\":%.3f,\"events\":%ld,"
         "\"streams\":%ld,\"smooth\":%ld,\"stalls\":%ld,\"lost\":%ld,"
         "\"reordered\":%ld,\"errors\":%ld,\"heads\":%ld,\"max_gap_ms\":%.1f",
         n_conns, elapsed, tally.events, tally.streams, tally.smooth,
         tally.stalls, tally.lost, tally.reordered, tally.errors, tally.heads,
         tally.max_gap_ns / 1e6);
  printf(",\"added_p50_us\":%d,\"added_p99_us\":%d,\"added_p999_us\":%d,"
         "\"ttfb_p50_us\":%d,\"ttfb_p99_us\":%d}\n",
         percentile(added_us, tally.added_n, 0.5),
         percentile(added_us, tally.added_n, 0.99),
         percentile(added_us, tally.added_n, 0.999),
         percentile(ttfb_us, tally.ttfb_n, 0.5),
         percentile(ttfb_us, tally.ttfb_n, 0.99));
  fflush(stdout);
}

static void read_arguments(int argc, char **argv) {
  static const struct option known[] = {
      {"conns", 1, 0, 'c'},  {"mode", 1, 0, 'm'},       {"seconds", 1, 0, 's'},
      {"warmup", 1, 0, 'w'}, {"events", 1, 0, 'e'},     {"stall-ms", 1, 0, 'l'},
      {"body-bytes", 1, 0, 'b'}, {0}};
  int o;
  while ((o = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (o == 'c') n_conns = atoi(optarg);
    else if (o == 'm') mode = *optarg == 'o' ? ONCE : *optarg == 'h' ? HOLD : TIMED;
    else if (o == 's') seconds = atof(optarg);
    else if (o == 'w') warmup = atof(optarg);
    else if (o == 'e') n_events = atoi(optarg);
    else if (o == 'l') stall_ns = atol(optarg) * MS;
    else if (o == 'b') body_bytes = atoi(optarg);
    else exit(2);
  }
  if (optind != argc - 1) {
    fprintf(stderr, "usage: streams PORT --conns N [--mode timed|once|hold] "
                    "[--seconds S] [--warmup S] [--events N] [--stall-ms N] "
                    "[--body-bytes N]\n");
    exit(2);
  }
  port = atoi(argv[optind]);
}

int main(int argc, char **argv) {
  char byte;
  struct rlimit files;
  read_arguments(argc, argv);
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  added_us = malloc(SAMPLES * sizeof(int));
  ttfb_us = malloc(SAMPLES * sizeof(int));
  conns = calloc(n_conns, sizeof *conns);
  ep = epoll_create1(0);
  build_request();
  for (int i = 0; i < n_conns; i++) dial(&conns[i]);
  for (int i = 0; i < n_conns; i++) ask(&conns[i]);
  if (mode == TIMED) {
    run_until(now_ns() + (long)(warmup * 1e9), 0);
    long errors = tally.errors;
    memset(&tally, 0, sizeof tally);
    tally.errors = errors;
  }
  printf("{\"phase\":\"begin\"}\n");
  fflush(stdout);
  long start_ns = now_ns();
  run_until(start_ns + (long)(seconds * 1e9), mode != TIMED);
  say_figures((now_ns() - start_ns) / 1e9);
  while (read(0, &byte, 1) > 0) continue;
  return 0;
}
