/* A fake inference engine: answers as told, as fast as a kernel lets one thread, and counts what reached it and what was read to its end.
 *
 * Usage: engine NAME...   opens one loopback port for each name and one for control, prints "NAME PORT" lines, then serves until its standard input ends.
 * Control, one line each over TCP, answered by one line:
 *   reply NAME json|sse FILE DELAY_US PACE_US   what to answer; sse: events separated by blank lines, one chunk each; PACE_US 0 sends them in one write
 *   ill NAME ok|down|hang|slow|deaf|reset|cut   slow: ten times DELAY_US and PACE_US; deaf: accepts and never reads; cut: ends in the middle of the reply
 *   verify 0|1                                  name the sums of the bodies (FNV-1a) in x-bench-request and x-bench-reply
 *   stats NAME                                  one JSON object
 *   clear                                       all counts to zero (open connections stay)
 *
 * A reply counts as read when all of it was handed to the kernel and the peer then did anything but reset: a socket closed with unread bytes resets.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
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

enum { MAX_FDS = 65536, MAX_PORTS = 8, HEAD_MAX = 65536 };
enum kind { NONE, LISTENER, PEER, CONTROL_LISTENER, CONTROL, TIMER, PARENT };
enum illness { OK, DOWN, HANG, SLOW, DEAF, RESET, CUT };
static const char *ILLNESSES[] = {"ok", "down", "hang", "slow", "deaf", "reset", "cut"};
static const char STAMP[] = "\"t\":\"0000000000000000000\""; /* replaced by CLOCK_MONOTONIC in ns at the moment of sending */

struct piece { size_t start, length, stamp; }; /* stamp: offset in the piece, 0 for none */
struct reply { char *bytes; size_t length, head; struct piece *pieces; int count; int sse; int64_t delay, pace; };
struct port {
    char name[32]; int number, fd; enum illness ill; struct reply reply;
    long accepted, open, requests, replied, cut; unsigned long long bytes_in, sum;
};
struct peer {
    enum kind kind; struct port *port;
    char *in; size_t have, room;           /* bytes of a head (or of a control line) not yet understood */
    long long body; int chunked;           /* what of the body is still to come; chunked: state of the little reader below */
    uint64_t hash; char tail[5];           /* the last bytes of a chunked body */
    const char *out; size_t left;          /* what is being sent: shared bytes ... */
    char *own; size_t own_length, own_sent; /* ... or bytes of this connection's */
    int next_piece, busy, finished, wants_write; uint32_t generation;
};
struct due { int64_t at; int fd; uint32_t generation; };

static struct peer peers[MAX_FDS];
static struct port ports[MAX_PORTS];
static int port_count, poller, timer, verify;
static struct due *heap; static size_t heap_length, heap_room;

static int64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void die(const char *what) { perror(what); exit(1); }

static void watch(int fd, uint32_t events, int op) {
    struct epoll_event e = {.events = events, .data.fd = fd};
    if (epoll_ctl(poller, op, fd, &e) < 0 && op == EPOLL_CTL_ADD) die("epoll_ctl");
}

/* ---- what is due later: a binary heap by time */

static void arm(void) {
    struct itimerspec spec = {0};
    if (heap_length) { spec.it_value.tv_sec = heap[0].at / 1000000000; spec.it_value.tv_nsec = heap[0].at % 1000000000; }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void later(int fd, int64_t at) {
    if (heap_length == heap_room) { heap_room = heap_room ? heap_room * 2 : 1024; heap = realloc(heap, heap_room * sizeof *heap); if (!heap) die("realloc"); }
    size_t i = heap_length++;
    struct due item = {at, fd, peers[fd].generation};
    for (; i && heap[(i - 1) / 2].at > at; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
    if (i == 0) arm();
}

static struct due earliest(void) {
    struct due top = heap[0], last = heap[--heap_length];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap_length; i = child) {
        if (child + 1 < heap_length && heap[child + 1].at < heap[child].at) child++;
        if (heap[child].at >= last.at) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---- replies */

static void load(struct reply *r, const char *kind, const char *file) {
    FILE *f = fopen(file, "rb");
    if (!f) die(file);
    fseek(f, 0, SEEK_END); size_t size = (size_t)ftell(f); rewind(f);
    char *text = malloc(size + 1);
    if (!text || fread(text, 1, size, f) != size) die("read");
    text[size] = 0; fclose(f);
    free(r->bytes); free(r->pieces);
    r->sse = !strcmp(kind, "sse"); r->count = 0; r->pieces = NULL;
    if (!r->sse) {
        r->bytes = malloc(size + 256);
        r->head = (size_t)sprintf(r->bytes, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", size);
        memcpy(r->bytes + r->head, text, size);
        r->length = r->head + size;
        free(text);
        return;
    }
    int events = 0;
    for (char *p = text; (p = strstr(p, "\n\n")); p += 2) events++;
    r->bytes = malloc(size + 256 + (size_t)events * 16);
    r->pieces = malloc(sizeof *r->pieces * (size_t)events);
    r->head = r->length = (size_t)sprintf(r->bytes, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
    for (char *p = text, *end; (end = strstr(p, "\n\n")); p = end + 2) {
        size_t n = (size_t)(end + 2 - p);
        struct piece *piece = &r->pieces[r->count++];
        piece->start = r->length;
        r->length += (size_t)sprintf(r->bytes + r->length, "%zx\r\n", n);
        char *stamp = memmem(p, n, STAMP, sizeof STAMP - 1);
        piece->stamp = stamp ? r->length - piece->start + (size_t)(stamp - p) + 5 : 0;
        memcpy(r->bytes + r->length, p, n); r->length += n;
        r->length += (size_t)sprintf(r->bytes + r->length, "\r\n");
        piece->length = r->length - piece->start;
    }
    struct piece *last = &r->pieces[r->count - 1];
    r->length += (size_t)sprintf(r->bytes + r->length, "0\r\n\r\n"); /* leaves with the last event, as engines do */
    last->length = r->length - last->start;
    free(text);
}

/* ---- connections */

static void drop(int fd, int reset) {
    struct peer *p = &peers[fd];
    if (p->kind == PEER) {
        p->port->open--;
        if (p->busy && !p->finished) p->port->cut++;
    }
    if (reset) { struct linger l = {1, 0}; setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l); }
    uint32_t generation = p->generation + 1;
    free(p->in); free(p->own);
    memset(p, 0, sizeof *p);
    p->generation = generation;
    close(fd);
}

static void keep(struct peer *p, const char *bytes, size_t n) {
    if (p->own_sent == p->own_length) p->own_sent = p->own_length = 0;
    p->own = realloc(p->own, p->own_length + n);
    if (!p->own) die("realloc");
    memcpy(p->own + p->own_length, bytes, n);
    p->own_length += n;
}

/* Sends what is at hand. 0: all of it, 1: the kernel is full, -1: the peer is gone. */
static int flush(int fd) {
    struct peer *p = &peers[fd];
    while (p->own_sent < p->own_length || p->left) {
        int own = p->own_sent < p->own_length;
        const char *from = own ? p->own + p->own_sent : p->out;
        size_t n = own ? p->own_length - p->own_sent : p->left;
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            if (!p->wants_write) { p->wants_write = 1; watch(fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT, EPOLL_CTL_MOD); }
            return 1;
        }
        if (sent < 0) { drop(fd, 0); return -1; }
        if (own) p->own_sent += (size_t)sent; else { p->out += sent; p->left -= (size_t)sent; }
    }
    if (p->wants_write) { p->wants_write = 0; watch(fd, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD); }
    return 0;
}

static void serve(int fd);

static void sent_all(int fd) {
    struct peer *p = &peers[fd];
    if (p->finished || (p->port->reply.sse && p->next_piece < p->port->reply.count && p->port->ill != CUT)) return;
    if (p->port->ill == CUT) { drop(fd, 0); return; }
    p->finished = 1; p->busy = 0;
    p->port->replied++;
    if (p->have) serve(fd);
}

/* The head with the sums of both bodies; used when verifying only. */
static void summed_head(struct peer *p, struct reply *r) {
    uint64_t hash = 0xcbf29ce484222325u;
    size_t from = r->head;
    if (!r->sse) for (size_t i = from; i < r->length; i++) hash = (hash ^ (unsigned char)r->bytes[i]) * 0x100000001b3u;
    else for (int k = 0; k < r->count; k++) {
        char *start = r->bytes + r->pieces[k].start; size_t n = strtoul(start, NULL, 16);
        char *body = (char *)memchr(start, '\n', 20) + 1;
        for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)body[i]) * 0x100000001b3u;
    }
    char head[256];
    memcpy(head, r->bytes, r->head - 2);
    size_t n = r->head - 2;
    n += (size_t)sprintf(head + n, "x-bench-request: %016llx\r\nx-bench-reply: %016llx\r\n\r\n", (unsigned long long)p->hash, (unsigned long long)hash);
    keep(p, head, n);
}

/* One step of a reply: all of it, or the next event of a paced one. */
static void step(int fd) {
    struct peer *p = &peers[fd];
    struct port *port = p->port;
    struct reply *r = &port->reply;
    int paced = r->sse && r->pace > 0, whole = !paced;
    if (p->next_piece == 0) {
        size_t head = r->head;
        if (verify) summed_head(p, r); else if (paced) keep(p, r->bytes, head);
        if (whole) {
            p->out = r->bytes + (verify ? head : 0);
            p->left = r->length - (verify ? head : 0);
            if (port->ill == CUT) p->left = p->left * 2 / 3;
            p->next_piece = r->count;
        }
    }
    if (paced && p->next_piece < r->count) {
        struct piece *piece = &r->pieces[p->next_piece++];
        size_t at = p->own_length - p->own_sent; /* after what still waits */
        keep(p, r->bytes + piece->start, piece->length);
        if (piece->stamp && !verify) {
            char digits[24];
            snprintf(digits, sizeof digits, "%019lld", (long long)now());
            memcpy(p->own + p->own_sent + at + piece->stamp, digits, 19);
        }
        if (p->next_piece < r->count && !(port->ill == CUT && p->next_piece >= r->count / 2))
            later(fd, now() + r->pace * (port->ill == SLOW ? 10 : 1));
        else if (port->ill == CUT) p->next_piece = r->count;
    }
    if (flush(fd) == 0) sent_all(fd);
}

static void answer(int fd) {
    struct peer *p = &peers[fd];
    struct port *port = p->port;
    port->requests++;
    port->sum += p->hash;
    p->busy = 1; p->finished = 0; p->next_piece = 0;
    if (port->ill == HANG) return;
    if (port->ill == RESET) { drop(fd, 1); return; }
    int64_t delay = port->reply.delay * (port->ill == SLOW ? 10 : 1);
    if (delay) later(fd, now() + delay); else step(fd);
}

/* ---- requests */

static const char *field(const char *head, size_t n, const char *name) {
    size_t length = strlen(name);
    for (const char *line = head, *end = head + n; line && line + length < end; line = memchr(line, '\n', (size_t)(end - line)), line = line ? line + 1 : NULL)
        if (!strncasecmp(line, name, length)) return line + length;
    return NULL;
}

static void hash_bytes(struct peer *p, const char *bytes, size_t n) {
    if (verify) for (size_t i = 0; i < n; i++) p->hash = (p->hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
}

/* Anything but a POST: the list of models, for those who look before they send. */
static void other_than_post(int fd, const char *line) {
    static const char BODY[] = "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1,\"owned_by\":\"bench\"}]}";
    int found = strstr(line, " /v1/models") || strstr(line, " /health") || strstr(line, " / ");
    char text[512];
    int n = snprintf(text, sizeof text, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                     found ? "200 OK" : "404 Not Found", sizeof BODY - 1, BODY);
    keep(&peers[fd], text, (size_t)n);
    flush(fd);
}

/* Takes requests out of what has been read, one at a time. */
static void serve(int fd) {
    struct peer *p = &peers[fd];
    uint32_t generation = p->generation;
    while (p->generation == generation && p->kind == PEER && !p->busy && p->have) {
        if (!p->body && !p->chunked) {
            char *end = memmem(p->in, p->have, "\r\n\r\n", 4);
            if (!end) return;
            size_t head = (size_t)(end + 4 - p->in);
            const char *length = field(p->in, head, "content-length:"), *coding = field(p->in, head, "transfer-encoding:");
            int post = !memcmp(p->in, "POST", 4);
            char line[256] = {0};
            memcpy(line, p->in, head < 255 ? head : 255);
            p->body = length ? atoll(length) : 0;
            p->chunked = coding != NULL;
            p->hash = 0xcbf29ce484222325u;
            memset(p->tail, 0, sizeof p->tail);
            p->have -= head; memmove(p->in, p->in + head, p->have);
            if (!post) { other_than_post(fd, line); continue; }
            if (!p->body && !p->chunked) { answer(fd); continue; }
        }
        size_t take;
        int ended = 0;
        if (p->chunked) { /* the end is looked for only: bodies of JSON hold no bare CR LF 0 CR LF CR LF */
            for (take = 0; take < p->have && !ended; take++) {
                memmove(p->tail, p->tail + 1, 4); p->tail[4] = p->in[take];
                ended = !memcmp(p->tail, "0\r\n\r\n", 5);
            }
            p->chunked = !ended;
        } else {
            take = (long long)p->have < p->body ? p->have : (size_t)p->body;
            hash_bytes(p, p->in, take);
            p->body -= (long long)take;
            ended = p->body == 0;
        }
        p->have -= take; memmove(p->in, p->in + take, p->have);
        if (ended) answer(fd);
    }
}

static void readable(int fd) {
    struct peer *p = &peers[fd];
    if (p->port->ill == DEAF) return;
    static char buffer[1 << 18];
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            if (n < 0 && p->finished) { p->port->replied--; p->port->cut++; } /* it went away with our reply unread */
            drop(fd, 0);
            return;
        }
        p->port->bytes_in += (unsigned long long)n;
        if (p->body > n && !p->busy && !p->have) { hash_bytes(p, buffer, (size_t)n); p->body -= n; continue; } /* the inside of a large body is not kept */
        if (p->have + (size_t)n > p->room) { p->room = p->have + (size_t)n; p->in = realloc(p->in, p->room); if (!p->in) die("realloc"); }
        memcpy(p->in + p->have, buffer, (size_t)n);
        p->have += (size_t)n;
        uint32_t generation = p->generation;
        serve(fd);
        if (p->generation != generation || n < (ssize_t)sizeof buffer) return;
    }
}

/* ---- listening and being told */

static void listen_on(struct port *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port->number), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 4096) < 0) die("listen");
    socklen_t n = sizeof a;
    getsockname(fd, (struct sockaddr *)&a, &n);
    port->number = ntohs(a.sin_port); port->fd = fd;
    peers[fd].kind = LISTENER; peers[fd].port = port;
    watch(fd, EPOLLIN, EPOLL_CTL_ADD);
}

static void sicken(struct port *port, enum illness ill) {
    enum illness before = port->ill;
    port->ill = ill;
    for (int fd = 0; fd < MAX_FDS; fd++) /* a change of health starts with new connections, but for one that only gets slower */
        if (peers[fd].kind == PEER && peers[fd].port == port && ill != SLOW && ill != HANG && ill != CUT && before != SLOW) drop(fd, ill == RESET);
    if (ill == DOWN && port->fd >= 0) { peers[port->fd].kind = NONE; close(port->fd); port->fd = -1; }
    if (ill != DOWN && port->fd < 0) listen_on(port);
}

static struct port *named(const char *name) {
    for (int i = 0; i < port_count; i++) if (!strcmp(ports[i].name, name)) return &ports[i];
    return NULL;
}

static void command(int fd, char *line) {
    char name[64] = "", kind[32] = "", file[4096] = "", said[512] = "ok\n";
    long long delay = 0, pace = 0;
    int on;
    if (sscanf(line, "reply %63s %31s %4095s %lld %lld", name, kind, file, &delay, &pace) == 5 && named(name)) {
        struct port *port = named(name);
        load(&port->reply, kind, file);
        port->reply.delay = delay * 1000; port->reply.pace = pace * 1000;
    } else if (sscanf(line, "ill %63s %31s", name, kind) == 2 && named(name)) {
        int found = -1;
        for (int i = 0; i < 7; i++) if (!strcmp(kind, ILLNESSES[i])) found = i;
        if (found < 0) strcpy(said, "unknown\n"); else sicken(named(name), (enum illness)found);
    } else if (sscanf(line, "verify %d", &on) == 1) verify = on;
    else if (sscanf(line, "stats %63s", name) == 1 && named(name)) {
        struct port *p = named(name);
        snprintf(said, sizeof said, "{\"accepted\":%ld,\"open\":%ld,\"requests\":%ld,\"replied\":%ld,\"cut\":%ld,\"bytes_in\":%llu,\"sum\":\"%016llx\"}\n",
                 p->accepted, p->open, p->requests, p->replied, p->cut, p->bytes_in, p->sum);
    } else if (!strncmp(line, "clear", 5)) {
        for (int i = 0; i < port_count; i++) { struct port *p = &ports[i]; p->accepted = p->requests = p->replied = p->cut = 0; p->bytes_in = p->sum = 0; }
        for (int i = 0; i < MAX_FDS; i++) peers[i].finished = peers[i].kind == PEER && peers[i].busy ? peers[i].finished : 0;
    } else strcpy(said, "unknown\n");
    if (write(fd, said, strlen(said)) < 0) perror("write");
}

static void control(int fd) {
    char line[8192];
    ssize_t n = recv(fd, line, sizeof line - 1, 0);
    if (n <= 0) { drop(fd, 0); return; }
    line[n] = 0;
    command(fd, line); /* one line a message: the bench waits for each answer */
}

static void welcome(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int one = 1;
        if (fd >= MAX_FDS) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct peer *p = &peers[fd];
        if (peers[listener].kind == LISTENER) { p->kind = PEER; p->port = peers[listener].port; p->port->accepted++; p->port->open++; }
        else p->kind = CONTROL;
        watch(fd, p->kind == PEER && p->port->ill == DEAF ? EPOLLRDHUP : EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD);
    }
}

static void ticked(void) {
    uint64_t ignored;
    if (read(timer, &ignored, sizeof ignored) < 0) return;
    int64_t limit = now();
    while (heap_length && heap[0].at <= limit) {
        struct due d = earliest();
        if (peers[d.fd].generation == d.generation && peers[d.fd].kind == PEER && peers[d.fd].busy) step(d.fd);
    }
    arm();
}

int main(int argc, char **argv) {
    struct rlimit files = {MAX_FDS, MAX_FDS}, allowed;
    getrlimit(RLIMIT_NOFILE, &allowed);
    if (allowed.rlim_max < files.rlim_max) files.rlim_cur = files.rlim_max = allowed.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    poller = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    peers[timer].kind = TIMER; watch(timer, EPOLLIN, EPOLL_CTL_ADD);
    peers[0].kind = PARENT; watch(0, EPOLLIN, EPOLL_CTL_ADD);
    for (int i = 1; i < argc && port_count < MAX_PORTS; i++) {
        struct port *port = &ports[port_count++];
        snprintf(port->name, sizeof port->name, "%s", argv[i]);
        listen_on(port);
        printf("%s %d\n", port->name, port->number);
    }
    struct port told = {.name = "control"};
    listen_on(&told); peers[told.fd].kind = CONTROL_LISTENER;
    printf("control %d\n", told.number); fflush(stdout);
    for (;;) {
        struct epoll_event events[512];
        int n = epoll_wait(poller, events, 512, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            switch (peers[fd].kind) {
            case LISTENER: case CONTROL_LISTENER: welcome(fd); break;
            case CONTROL: control(fd); break;
            case TIMER: ticked(); break;
            case PARENT: { char c[64]; if (read(0, c, sizeof c) <= 0) return 0; break; }
            case PEER:
                if (peers[fd].port->ill == DEAF) { if (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) drop(fd, 0); break; }
                if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) readable(fd);
                if (peers[fd].kind == PEER && events[i].events & EPOLLOUT && flush(fd) == 0) sent_all(fd);
                break;
            case NONE: break;
            }
        }
    }
}
