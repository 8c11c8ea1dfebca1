/* A disk that fails when told to, for tests: preloaded into a process, it stands before the calls with which SQLite writes.
 *
 * SICK_DISK_PATH is the file whose name every file concerned begins with (the store, its -wal and its -shm); SICK_DISK_ORDER names a file read at each call:
 * "full" (ENOSPC), "readonly" (EROFS), "slow N" (every sync takes N milliseconds longer); anything else, or no file: the disk is well. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int concerned(int fd)
{
    const char *path = getenv("SICK_DISK_PATH");
    char link[64], target[4096];
    ssize_t length;
    if (path == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, target, sizeof target - 1);
    return length > 0 && strncmp(target, path, strlen(path)) == 0;
}

static void order(char *into, size_t size)
{
    const char *path = getenv("SICK_DISK_ORDER");
    int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : syscall(SYS_read, fd, into, size - 1);
    into[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        syscall(SYS_close, fd);
}

/* What a write to this file fails with; 0: nothing. */
static int failure(int fd)
{
    char word[32];
    if (!concerned(fd))
        return 0;
    order(word, sizeof word);
    return strcmp(word, "full") == 0 ? ENOSPC : strcmp(word, "readonly") == 0 ? EROFS : 0;
}

static void wait_for_disk(int fd)
{
    char word[32];
    long milliseconds;
    if (!concerned(fd))
        return;
    order(word, sizeof word);
    milliseconds = strncmp(word, "slow ", 5) == 0 ? atol(word + 5) : 0;
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return (errno = failure(fd)) != 0 ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return (errno = failure(fd)) != 0 ? -1 : syscall(SYS_pwrite64, fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return pwrite64(fd, data, size, at);
}

int ftruncate64(int fd, off64_t size)
{
    return (errno = failure(fd)) != 0 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

int fsync(int fd)
{
    wait_for_disk(fd);
    return (errno = failure(fd)) != 0 ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    wait_for_disk(fd);
    return (errno = failure(fd)) != 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}
