/* A fast simulated inference worker: one epoll thread, HTTP/1.1 keep-alive.
 *
 *   cc -O2 -o upstream upstream.c
 *   ./upstream PORT [--events 64] [--tick-ms 20] [--event-bytes 220]
 *              [--reply-bytes 400] [--silent] [--big-mib N]
 *
 * A POST whose body holds "stream":true is answered as server-sent events in a
 * chunked body: one event per stream and tick (0 = all at once, one write
 * each), then [DONE]. All streams move on the same tick, as the running batch
 * of an engine does. Every event carries "t", the CLOCK_MONOTONIC nanosecond
 * of its write, and "seq", its number in the stream, so that a client on the
 * same machine sees what was added, lost or reordered. With --silent a
 * stream's head is sent and nothing after it.
 * Any other POST is answered with one JSON completion. GET answers the probes
 * of a gateway (models, health, model and server facts, loads).
 *
 * With --big-mib a POST to /generate is answered with so many MiB, as fast as
 * they are taken: events of 16 KiB, or one JSON completion. GET /sim/state says
 * how many streams and big answers run, the most that ever did, how many of
 * them wait for their reader, and what the big ones have sent.
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
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "chunked.h"

#define MAX_FD 65536
#define IN_BYTES 65536
#define TEXT_BYTES 65536
#define STREAM_TRUE "\"stream\":true"
#define PIECE_BYTES 16384
#define PIECES_A_TURN 2
#define BLOCKED_NS 500000000L

struct conn {
  int fd, in_body, is_get, wants_stream, is_chunked;
  int is_streaming, sent, matched; /* matched: bytes of STREAM_TRUE seen */
  int is_big;
  long big_left, moved_ns;         /* moved_ns: when its socket took something */
  long need;                       /* body bytes still to come */
  struct chunked framing;
  char path[128];
  char *in, *out;
  int in_used, out_used, out_size, is_armed;
};

static struct conn *conns[MAX_FD];
static int ep, highest;
static int events = 64, tick_ms = 20, event_bytes = 220, reply_bytes = 400;
static int is_silent, big_mib, running, most_running;
static long big_sent;
static char padding[TEXT_BYTES];

static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void set_running(struct conn *c, int is_running) {
  running += is_running - c->is_streaming;
  c->is_streaming = is_running;
  if (running > most_running) most_running = running;
}

static void drop(struct conn *c) {
  set_running(c, 0);
  conns[c->fd] = NULL;
  close(c->fd);
  free(c->in);
  free(c->out);
  free(c);
}

/* Sends what waits; -1 when the connection is gone (and freed). */
static int flush_out(struct conn *c) {
  int off = 0, wants_room;
  while (off < c->out_used) {
    int n = send(c->fd, c->out + off, c->out_used - off, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      drop(c);
      return -1;
    }
    off += n;
  }
  if (off < c->out_used) memmove(c->out, c->out + off, c->out_used - off);
  c->out_used -= off;
  if (c->is_big && off) {
    big_sent += off;
    c->moved_ns = now_ns();
  }
  wants_room = c->out_used > 0 || c->big_left > 0;
  if (c->is_armed != wants_room) {
    c->is_armed = wants_room;
    struct epoll_event e = {.events = EPOLLIN | (c->is_armed ? EPOLLOUT : 0),
                            .data.fd = c->fd};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
  }
  return 0;
}

static void put(struct conn *c, const char *bytes, int n) {
  if (c->out_used + n > c->out_size) {
    c->out_size = (c->out_used + n) * 2;
    c->out = realloc(c->out, c->out_size);
    if (!c->out) abort();
  }
  memcpy(c->out + c->out_used, bytes, n);
  c->out_used += n;
}

static int pad(char *to, int used, int wanted) {
  int n = wanted - used;
  if (n < 0) n = 0;
  return sprintf(to + used, ",\"p\":\"%.*s\"}", n, padding);
}

static int emit_event(struct conn *c) {
  char event[TEXT_BYTES * 2], size[16];
  int n, is_last = c->sent >= events;
  if (is_last) {
    n = sprintf(event, "data: [DONE]\n\n");
  } else {
    n = sprintf(event,
                "data: {\"id\":\"chatcmpl-sim\",\"object\":"
                "\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
                "\"sim\",\"t\":%ld,\"seq\":%d,\"choices\":[{\"index\":0,"
                "\"delta\":{\"content\":\" tok\"},\"finish_reason\":null}]",
                now_ns(), c->sent);
    n += pad(event, n, event_bytes - 10);
    n += sprintf(event + n, "\n\n");
  }
  put(c, size, sprintf(size, "%x\r\n", n));
  put(c, event, n);
  if (is_last) put(c, "\r\n0\r\n\r\n", 7);
  else put(c, "\r\n", 2);
  c->sent++;
  if (is_last) set_running(c, 0);
  return flush_out(c);
}

/* One piece of a big answer: an event of its own, or a slice of the completion. */
static void put_piece(struct conn *c) {
  static const char stream_end[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
  static char piece[PIECE_BYTES];
  const char *start = c->wants_stream ? "data: {\"p\":\"" : "{\"p\":\"";
  const char *end = c->wants_stream ? "\"}\n\n" : "\"}";
  long left = c->big_left, total = (long)big_mib << 20;
  memset(piece, 'x', PIECE_BYTES);
  if (c->wants_stream || left == total) memcpy(piece, start, strlen(start));
  if (c->wants_stream || left == PIECE_BYTES)
    memcpy(piece + PIECE_BYTES - strlen(end), end, strlen(end));
  if (c->wants_stream) put(c, "4000\r\n", 6);
  put(c, piece, PIECE_BYTES);
  if (c->wants_stream) put(c, "\r\n", 2);
  c->big_left -= PIECE_BYTES;
  if (c->big_left) return;
  if (c->wants_stream) put(c, stream_end, sizeof stream_end - 1);
  set_running(c, 0);
}

/* Sends of a big answer what is taken, and not too much before others' turn. */
static int push(struct conn *c) {
  for (int i = 0; i < PIECES_A_TURN && c->big_left && !c->out_used; i++) {
    put_piece(c);
    if (flush_out(c) < 0) return -1;
  }
  return 0;
}

/* How many big answers have found no room for a while. */
static int count_blocked(void) {
  long now = now_ns();
  int n = 0;
  for (int fd = 0; fd <= highest; fd++) {
    struct conn *c = conns[fd];
    n += c && c->is_big && c->is_streaming && now - c->moved_ns > BLOCKED_NS;
  }
  return n;
}

static const char *fact(const char *path) {
  static char state[256];
  if (!strcmp(path, "/sim/state")) {
    sprintf(state,
            "{\"running\":%d,\"most_running\":%d,\"blocked\":%d,"
            "\"big_sent\":%ld}", running, most_running, count_blocked(),
            big_sent);
    return state;
  }
  if (!strncmp(path, "/v1/models", 10))
    return "{\"object\":\"list\",\"data\":[{\"id\":\"sim\",\"object\":\"model\","
           "\"created\":1,\"owned_by\":\"sglang\",\"root\":\"sim\","
           "\"max_model_len\":32768}]}";
  if (strstr(path, "model_info"))
    return "{\"model_path\":\"sim\",\"served_model_name\":\"sim\","
           "\"tokenizer_path\":\"sim\",\"is_generation\":true,"
           "\"preferred_sampling_params\":null}";
  if (strstr(path, "server_info"))
    return "{\"model_path\":\"sim\",\"served_model_name\":\"sim\","
           "\"version\":\"0.5.21\",\"dp_size\":1,\"tp_size\":1,"
           "\"max_running_requests\":4096,\"internal_states\":[{}]}";
  if (strstr(path, "loads"))
    return "{\"loads\":[{\"dp_rank\":0,\"num_running_reqs\":0,"
           "\"num_waiting_reqs\":0,\"num_total_reqs\":0,\"num_used_tokens\":0,"
           "\"num_total_tokens\":0,\"max_total_num_tokens\":1000000,"
           "\"token_usage\":0.0,\"gen_throughput\":100.0,"
           "\"cache_hit_rate\":0.0,\"utilization\":0.0,"
           "\"max_running_requests\":4096}]}";
  return "{\"status\":\"ok\"}";
}

static int answer(struct conn *c) {
  static const char stream_head[] =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
      "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
  char head[256], body[TEXT_BYTES * 2];
  int n;
  c->is_big = big_mib && !c->is_get && !strcmp(c->path, "/generate");
  if (c->is_big) {
    if (c->wants_stream) put(c, stream_head, sizeof stream_head - 1);
    else put(c, head, sprintf(head,
                              "HTTP/1.1 200 OK\r\ncontent-type: application/json"
                              "\r\ncontent-length: %ld\r\n\r\n",
                              (long)big_mib << 20));
    c->big_left = (long)big_mib << 20;
    set_running(c, 1);
    return flush_out(c) < 0 ? -1 : push(c);
  }
  if (c->wants_stream) {
    put(c, stream_head, sizeof stream_head - 1);
    set_running(c, 1);
    c->sent = 0;
    if (flush_out(c) < 0) return -1;
    while (!tick_ms && !is_silent && c->is_streaming)
      if (emit_event(c) < 0) return -1;
    return 0;
  }
  if (c->is_get) {
    n = sprintf(body, "%s", fact(c->path));
  } else {
    n = sprintf(body,
                "{\"id\":\"chatcmpl-sim\",\"object\":\"chat.completion\","
                "\"created\":1700000000,\"model\":\"sim\",\"choices\":[{"
                "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                "\"ok\"},\"finish_reason\":\"stop\"}],\"usage\":{"
                "\"prompt_tokens\":9,\"completion_tokens\":2,"
                "\"total_tokens\":11}");
    n += pad(body, n, reply_bytes - 8);
  }
  put(c, head, sprintf(head,
                       "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                       "content-length: %d\r\n\r\n", n));
  put(c, body, n);
  return flush_out(c);
}

/* Looks for "stream":true in the body, across reads, spaces ignored. */
static void scan(struct conn *c, unsigned char byte) {
  static const char wanted[] = STREAM_TRUE;
  if (c->wants_stream || byte == ' ') return;
  if (byte == (unsigned char)wanted[c->matched]) c->matched++;
  else c->matched = byte == '"';
  if (!wanted[c->matched]) {
    c->wants_stream = 1;
    c->matched = 0;
  }
}

static int read_head(struct conn *c) {
  char *end = memmem(c->in, c->in_used, "\r\n\r\n", 4);
  if (!end) return 0;
  int bytes = end + 4 - c->in;
  *end = 0;
  c->is_get = !strncmp(c->in, "GET", 3);
  c->wants_stream = c->matched = c->is_chunked = 0;
  c->need = 0;
  c->path[0] = 0;
  sscanf(c->in, "%*s %127s", c->path);
  for (char *l = c->in; (l = strstr(l, "\r\n"));) {
    l += 2;
    if (!strncasecmp(l, "content-length:", 15)) c->need = atol(l + 15);
    if (!strncasecmp(l, "transfer-encoding:", 18)) c->is_chunked = 1;
  }
  memset(&c->framing, 0, sizeof c->framing);
  memmove(c->in, c->in + bytes, c->in_used - bytes);
  c->in_used -= bytes;
  c->in_body = 1;
  return 1;
}

/* Eats body bytes; 1 when the body is complete. */
static int read_body(struct conn *c) {
  int i = 0;
  if (c->is_chunked) {
    for (; i < c->in_used && c->framing.state != CHUNKED_DONE; i++)
      if (chunked_step(&c->framing, c->in[i])) scan(c, c->in[i]);
  } else {
    for (; i < c->in_used && c->need > 0; i++, c->need--) scan(c, c->in[i]);
  }
  memmove(c->in, c->in + i, c->in_used - i);
  c->in_used -= i;
  return c->is_chunked ? c->framing.state == CHUNKED_DONE : c->need == 0;
}

/* A request that comes while a stream still runs waits for its end. */
static int serve(struct conn *c) {
  while (!c->is_streaming) {
    if (!c->in_body && !read_head(c)) return 0;
    if (!read_body(c)) return 0;
    c->in_body = 0;
    if (answer(c) < 0) return -1;
  }
  return 0;
}

static void on_readable(struct conn *c) {
  int room = IN_BYTES - 1 - c->in_used;
  int n = room ? recv(c->fd, c->in + c->in_used, room, 0) : 0;
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    drop(c);
    return;
  }
  c->in_used += n;
  serve(c);
}

static int on_room(struct conn *c) {
  if (flush_out(c) < 0) return -1;
  if (!c->is_big) return 0;
  if (push(c) < 0) return -1;
  return c->is_streaming ? 0 : serve(c);
}

static void on_tick(int timer) {
  unsigned long expired;
  if (read(timer, &expired, sizeof expired) < 0 || is_silent) return;
  for (int fd = 0; fd <= highest; fd++) {
    struct conn *c = conns[fd];
    if (!c || !c->is_streaming || c->is_big) continue;
    if (emit_event(c) == 0 && !c->is_streaming) serve(c);
  }
}

static void watch(int fd) {
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static void accept_all(int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
    struct conn *c = fd < MAX_FD ? calloc(1, sizeof *c) : NULL;
    char *in = c ? malloc(IN_BYTES) : NULL;
    if (!in) {
      free(c);
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->in = in;
    conns[fd] = c;
    if (fd > highest) highest = fd;
    watch(fd);
  }
}

static int listen_on(int port) {
  int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_port = htons(port),
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) {
    perror("upstream: cannot listen");
    exit(1);
  }
  return fd;
}

static int read_arguments(int argc, char **argv) {
  static const struct option known[] = {
      {"events", 1, 0, 'e'},      {"tick-ms", 1, 0, 't'},
      {"event-bytes", 1, 0, 'b'}, {"reply-bytes", 1, 0, 'r'},
      {"silent", 0, 0, 's'},      {"big-mib", 1, 0, 'g'},
      {0}};
  int o;
  while ((o = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (o == 'e') events = atoi(optarg);
    else if (o == 't') tick_ms = atoi(optarg);
    else if (o == 'b') event_bytes = atoi(optarg);
    else if (o == 'r') reply_bytes = atoi(optarg);
    else if (o == 's') is_silent = 1;
    else if (o == 'g') big_mib = atoi(optarg);
    else exit(2);
  }
  if (optind != argc - 1 || event_bytes > 60000 || reply_bytes > 60000) {
    fprintf(stderr, "usage: upstream PORT [--events N] [--tick-ms N] "
                    "[--event-bytes N] [--reply-bytes N] [--silent] "
                    "[--big-mib N]\n");
    exit(2);
  }
  return atoi(argv[optind]);
}

int main(int argc, char **argv) {
  int listener = listen_on(read_arguments(argc, argv));
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct timespec every = {tick_ms / 1000, (tick_ms % 1000) * 1000000L};
  struct itimerspec pace = {every, every};
  struct rlimit files;
  struct epoll_event ready[512];
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  memset(padding, 'x', sizeof padding);
  timerfd_settime(timer, 0, &pace, 0);
  ep = epoll_create1(0);
  watch(listener);
  watch(timer);
  for (;;) {
    int n = epoll_wait(ep, ready, 512, -1);
    for (int i = 0; i < n; i++) {
      int fd = ready[i].data.fd;
      if (fd == listener) {
        accept_all(fd);
      } else if (fd == timer) {
        on_tick(fd);
      } else if (conns[fd]) {
        if ((ready[i].events & EPOLLOUT) && on_room(conns[fd]) < 0) continue;
        if (ready[i].events & ~EPOLLOUT) on_readable(conns[fd]);
      }
    }
  }
}
