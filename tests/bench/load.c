/* A load client: keep-alive connections on one thread, closed loop or at a rate, replies followed to their exact end.
 *
 * Usage: load port=N body=FILE [key=value ...]     prints one JSON object; times in microseconds
 *   path=/v1/chat/completions  headers=FILE (lines without Host and Content-Length)
 *   connections=32  seconds=2  requests=0 (0: no limit)   whichever ends first; what is under way then is awaited for grace=10 seconds
 *   rate=0          requests a second, each timed from the moment it was due, so that waiting for a connection counts; 0: closed loop
 *   ramp=0          milliseconds over which connections begin
 *   verify=0        1: hold each reply against the sums that the engine names (see engine.c), every request body different
 *
 * A chunk's delay is the time from the engine's stamp ("t":"<ns>") to its arrival here: both are CLOCK_MONOTONIC of one machine.
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

static const char STAMP[] = "\"t\":\"";
static const char MARK[] = "@@@@@@@@@@@@@@@@"; /* replaced by sixteen hexadecimal digits when verifying */
enum { HEAD_MAX = 16384 };
enum framing { HEAD, LENGTH, SIZE_LINE, DATA, DATA_END, TRAILER, CLOSE_ENDS };

struct line {
    int fd, busy, connected, closes; enum framing state;
    char head[HEAD_MAX]; size_t have;
    long long left; int line_length;         /* of the body or chunk; of the size line or trailer line */
    size_t sent; int64_t asked, first;
    char *own;                               /* this connection's request, when each is different */
    uint64_t request_sum, sum, named_request, named_reply; int named;
};
struct samples { int64_t *at; size_t n, room; };

static struct line *lines;
static int poller, port, connections = 32, verify;
static char *request; static size_t request_length, body_at;
static char *mark;
static double seconds = 2, grace = 10, rate;
static long limit, issued, done, failed, cut, bad_status, mismatched, stamped; static unsigned long long bytes_in;
static int64_t start_at, stop_at, interval, next_due;
static struct samples latency, first_byte, chunk;
static int *idle, idle_count;
static int64_t *owed; static size_t owed_head, owed_tail, owed_room; /* requests that are due and have no connection yet */

static int64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void die(const char *what) { perror(what); exit(1); }

static void note(struct samples *s, int64_t value) {
    if (s->n == s->room) { s->room = s->room ? s->room * 2 : 4096; s->at = realloc(s->at, s->room * sizeof *s->at); if (!s->at) die("realloc"); }
    s->at[s->n++] = value;
}

static void watch(int i, uint32_t events, int op) {
    struct epoll_event e = {.events = events, .data.u32 = (uint32_t)i};
    epoll_ctl(poller, op, lines[i].fd, &e);
}

static void connect_line(int i) {
    struct line *l = &lines[i];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0) die("socket");
    if (connect(l->fd, (struct sockaddr *)&a, sizeof a) < 0) die("connect"); /* loopback: at once or not at all */
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fcntl(l->fd, F_SETFL, O_NONBLOCK) < 0) die("fcntl");
    l->connected = 1;
    watch(i, EPOLLIN, EPOLL_CTL_ADD);
}

static void push(int i) {
    struct line *l = &lines[i];
    const char *bytes = l->own ? l->own : request;
    while (l->sent < request_length) {
        ssize_t n = send(l->fd, bytes + l->sent, request_length - l->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { if (errno == EAGAIN) watch(i, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD); return; } /* an error shows on reading too */
        l->sent += (size_t)n;
    }
}

static uint64_t summed(uint64_t hash, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

static void ask(int i, int64_t due) {
    struct line *l = &lines[i];
    if (!l->connected) connect_line(i);
    l->busy = 1; l->state = HEAD; l->have = 0; l->sent = 0; l->asked = due; l->first = 0; l->closes = 0; l->named = 0; l->line_length = 0;
    issued++;
    if (verify) {
        static uint64_t seed = 0x9e3779b97f4a7c15u;
        if (!l->own) { l->own = malloc(request_length); memcpy(l->own, request, request_length); }
        seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
        char digits[17];
        snprintf(digits, sizeof digits, "%016llx", (unsigned long long)seed);
        if (mark) memcpy(l->own + (mark - request), digits, 16);
        l->request_sum = summed(0xcbf29ce484222325u, l->own + body_at, request_length - body_at);
        l->sum = 0xcbf29ce484222325u;
    }
    push(i);
}

static int may_ask(int64_t at) { return at < stop_at && (!limit || issued < limit); }

static void hang_up(int i) {
    struct line *l = &lines[i];
    if (l->connected) close(l->fd);
    l->connected = 0; l->fd = -1;
}

/* What a connection does when its exchange is over. */
static void rest(int i) {
    int64_t at = now();
    lines[i].busy = 0;
    if (lines[i].closes) hang_up(i);
    if (!rate) { if (may_ask(at)) ask(i, at); return; }
    if (owed_head < owed_tail) { ask(i, owed[owed_head++]); return; }
    idle[idle_count++] = i;
}

static void over(int i, int64_t at) {
    struct line *l = &lines[i];
    done++;
    note(&latency, at - l->asked);
    if (verify && (!l->named || l->named_request != l->request_sum || l->named_reply != l->sum)) mismatched++;
    rest(i);
}

static void broken(int i) {
    struct line *l = &lines[i];
    hang_up(i);
    if (!l->busy) return;
    failed++;
    if (l->state != HEAD || l->have) cut++;
    l->closes = 0;
    rest(i);
}

static const char *field(const char *head, const char *name) {
    for (const char *p = strchr(head, '\n'); p; p = strchr(p + 1, '\n')) if (!strncasecmp(p + 1, name, strlen(name))) return p + 1 + strlen(name);
    return NULL;
}

/* Reads the head; the number of bytes taken, 0 while it is incomplete. */
static size_t read_head(struct line *l, const char *bytes, size_t n) {
    size_t before = l->have, fits = n < HEAD_MAX - 1 - before ? n : HEAD_MAX - 1 - before;
    memcpy(l->head + before, bytes, fits);
    l->have += fits; l->head[l->have] = 0;
    char *end = memmem(l->head, l->have, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end + 4 - l->head);
    end[2] = 0;
    const char *length = field(l->head, "content-length:"), *coding = field(l->head, "transfer-encoding:"), *ends = field(l->head, "connection:");
    if (strncmp(l->head + 9, "200", 3)) bad_status++;
    l->closes = ends && (strstr(ends, "close") == ends + 1 || strstr(ends, "close") == ends);
    l->state = coding ? SIZE_LINE : length ? LENGTH : CLOSE_ENDS;
    l->left = length ? atoll(length) : 0;
    if (verify) {
        const char *one = field(l->head, "x-bench-request:"), *two = field(l->head, "x-bench-reply:");
        l->named = one && two;
        if (l->named) { l->named_request = strtoull(one, NULL, 16); l->named_reply = strtoull(two, NULL, 16); }
    }
    return head - before;
}

/* Follows the body; 1 when the reply is over, -1 when it is not HTTP. */
static int follow(struct line *l, const char *bytes, size_t n) {
    size_t i = 0;
    while (i < n) {
        switch (l->state) {
        case LENGTH: case DATA: {
            size_t take = (long long)(n - i) < l->left ? n - i : (size_t)l->left;
            if (verify) l->sum = summed(l->sum, bytes + i, take);
            l->left -= (long long)take; i += take;
            if (l->left) return 0;
            if (l->state == LENGTH) return i == n ? 1 : -1;
            l->state = DATA_END; l->line_length = 0;
            break; }
        case CLOSE_ENDS: if (verify) l->sum = summed(l->sum, bytes + i, n - i); return 0;
        case DATA_END: if (bytes[i++] == '\n') { l->state = SIZE_LINE; l->left = 0; l->line_length = 0; } break;
        case SIZE_LINE: {
            char c = bytes[i++];
            if (c == '\n') { l->state = l->left ? DATA : TRAILER; l->line_length = 0; break; }
            if (c == '\r' || l->line_length < 0) break;
            int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
            if (digit < 0) l->line_length = -1; else { l->left = l->left * 16 + digit; l->line_length++; }
            break; }
        case TRAILER: {
            char c = bytes[i++];
            if (c == '\n') { if (!l->line_length) return i == n ? 1 : -1; l->line_length = 0; } else if (c != '\r') l->line_length++;
            break; }
        case HEAD: return -1;
        }
    }
    return l->state == LENGTH && !l->left;
}

static void look_for_stamps(const char *bytes, size_t n, int64_t at) {
    for (const char *p = bytes, *end = bytes + n; (p = memmem(p, (size_t)(end - p), STAMP, sizeof STAMP - 1)); p++) {
        if (end - p < (long)sizeof STAMP - 1 + 19) return;
        int64_t then = atoll(p + sizeof STAMP - 1);
        if (then > 0) { note(&chunk, at - then); stamped++; }
    }
}

static void readable(int i) {
    static char buffer[1 << 18];
    struct line *l = &lines[i];
    ssize_t n = recv(l->fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    int64_t at = now();
    if (n <= 0) {
        if (n == 0 && l->busy && l->state == CLOSE_ENDS) { l->closes = 1; over(i, at); return; }
        broken(i);
        return;
    }
    bytes_in += (unsigned long long)n;
    if (!l->busy) { broken(i); return; }
    size_t taken = 0;
    if (l->state == HEAD) {
        taken = read_head(l, buffer, (size_t)n);
        if (!taken) return;
    }
    if (!l->first && (size_t)n > taken) { l->first = at; note(&first_byte, at - l->asked); }
    look_for_stamps(buffer + taken, (size_t)n - taken, at);
    int ended = follow(l, buffer + taken, (size_t)n - taken);
    if (ended < 0) broken(i); else if (ended) over(i, at);
}

static void due(int timer) {
    uint64_t ignored;
    if (read(timer, &ignored, sizeof ignored) < 0) return;
    for (int64_t at = now(); next_due <= at && may_ask(next_due); next_due += interval) {
        if (idle_count) { ask(idle[--idle_count], next_due); continue; }
        if (owed_tail == owed_room) { owed_room = owed_room ? owed_room * 2 : 1024; owed = realloc(owed, owed_room * sizeof *owed); if (!owed) die("realloc"); }
        owed[owed_tail++] = next_due;
    }
    struct itimerspec spec = {.it_value = {next_due / 1000000000, next_due % 1000000000}};
    if (may_ask(next_due)) timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static int in_order(const void *a, const void *b) { int64_t x = *(const int64_t *)a, y = *(const int64_t *)b; return x < y ? -1 : x > y; }

static void tell(const char *name, struct samples *s) {
    if (s->n) qsort(s->at, s->n, sizeof *s->at, in_order);
    printf(",\"%s_n\":%zu", name, s->n);
    if (s->n) printf(",\"%s_p50\":%.1f,\"%s_p99\":%.1f,\"%s_max\":%.1f", name, (double)s->at[s->n / 2] / 1e3, name, (double)s->at[s->n - 1 - s->n / 100] / 1e3, name, (double)s->at[s->n - 1] / 1e3);
}

static char *whole(const char *file, size_t *n) {
    FILE *f = fopen(file, "rb");
    if (!f) die(file);
    fseek(f, 0, SEEK_END); *n = (size_t)ftell(f); rewind(f);
    char *text = calloc(1, *n + 1);
    if (!text || fread(text, 1, *n, f) != *n) die("read");
    fclose(f);
    return text;
}

int main(int argc, char **argv) {
    const char *path = "/v1/chat/completions", *body_file = NULL, *headers_file = NULL;
    double ramp = 0;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) { fprintf(stderr, "not key=value: %s\n", argv[i]); return 2; }
        *value++ = 0;
        if (!strcmp(argv[i], "port")) port = atoi(value);
        else if (!strcmp(argv[i], "path")) path = value;
        else if (!strcmp(argv[i], "body")) body_file = value;
        else if (!strcmp(argv[i], "headers")) headers_file = value;
        else if (!strcmp(argv[i], "connections")) connections = atoi(value);
        else if (!strcmp(argv[i], "seconds")) seconds = atof(value);
        else if (!strcmp(argv[i], "grace")) grace = atof(value);
        else if (!strcmp(argv[i], "requests")) limit = atol(value);
        else if (!strcmp(argv[i], "rate")) rate = atof(value);
        else if (!strcmp(argv[i], "ramp")) ramp = atof(value);
        else if (!strcmp(argv[i], "verify")) verify = atoi(value);
        else { fprintf(stderr, "unknown: %s\n", argv[i]); return 2; }
    }
    if (!port || !body_file) { fprintf(stderr, "port= and body= are needed\n"); return 2; }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files); files.rlim_cur = files.rlim_max; setrlimit(RLIMIT_NOFILE, &files);
    size_t body_length, headers_length = 0;
    char *body = whole(body_file, &body_length), *headers = headers_file ? whole(headers_file, &headers_length) : "";
    request = malloc(body_length + headers_length + 1024);
    body_at = (size_t)sprintf(request, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n", path, port, headers, body_length);
    memcpy(request + body_at, body, body_length);
    request_length = body_at + body_length;
    mark = memmem(request, request_length, MARK, sizeof MARK - 1);
    lines = calloc((size_t)connections, sizeof *lines); idle = calloc((size_t)connections, sizeof *idle);
    poller = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &e);
    for (int i = 0; i < connections; i++) connect_line(i);
    start_at = now(); stop_at = start_at + (int64_t)(seconds * 1e9);
    int begun = 0;
    if (rate) {
        interval = (int64_t)(1e9 / rate); next_due = start_at;
        for (; begun < connections; begun++) idle[idle_count++] = begun;
        struct itimerspec spec = {.it_value = {0, 1}};
        timerfd_settime(timer, 0, &spec, NULL);
    }
    for (;;) {
        struct epoll_event events[512];
        int64_t at = now();
        while (begun < connections && at >= start_at + (int64_t)(ramp * 1e6 * begun / connections)) { if (may_ask(at)) ask(begun, at); begun++; }
        int over_now = !may_ask(now()) && issued == done + failed && owed_head == owed_tail;
        if (over_now || at > stop_at + (int64_t)(grace * 1e9)) break;
        int n = epoll_wait(poller, events, 512, begun < connections ? 1 : 50);
        for (int k = 0; k < n; k++) {
            if (events[k].data.u32 == UINT32_MAX) { due(timer); continue; }
            int i = (int)events[k].data.u32;
            if (events[k].events & EPOLLOUT && lines[i].connected) { watch(i, EPOLLIN, EPOLL_CTL_MOD); push(i); }
            if (events[k].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && lines[i].connected) readable(i);
        }
    }
    double took = (double)(now() - start_at) / 1e9;
    printf("{\"issued\":%ld,\"done\":%ld,\"failed\":%ld,\"cut\":%ld,\"bad_status\":%ld,\"mismatched\":%ld,\"stamped\":%ld,\"seconds\":%.4f,\"bytes_in\":%llu",
           issued, done, failed, cut, bad_status, mismatched, stamped, took, bytes_in);
    tell("latency", &latency); tell("first", &first_byte); tell("chunk", &chunk);
    printf("}\n");
    return 0;
}
