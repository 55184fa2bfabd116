// Interposed before libc: lets writes and syncs of chosen files fail, as a bad disk would. The file named by IO_FAULTS
// says how, in one line "MODE PART": MODE is eio (writes fail), short (every write takes half), fsync (syncs fail),
// slow (syncs take three seconds), hold (syncs wait until the mode is another one; the first makes a file IO_FAULTS.held),
// hang (writes do); PART is what the path of a file must contain. No file: nothing fails. Built by the fault tests with the
// C compiler.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wanted(const char* mode, int fd) {
  static __thread int busy;
  const char* control = getenv("IO_FAULTS");
  if (busy || control == NULL || access(control, R_OK) != 0) return 0;
  busy = 1;
  char line[512] = "", link[64], path[4096] = "";
  const int in = open(control, O_RDONLY | O_CLOEXEC);
  if (in >= 0) {
    const ssize_t size = read(in, line, sizeof line - 1);
    line[size > 0 ? size : 0] = 0;
    close(in);
  }
  busy = 0;
  char* part = strchr(line, ' ');
  if (part == NULL) return 0;
  *part++ = 0;
  part[strcspn(part, "\n")] = 0;
  if (strcmp(line, mode) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  return strstr(path, part) != NULL;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void hang(int fd) {
  while (wanted("hang", fd)) usleep(10000);
}
ssize_t write(int fd, const void* data, size_t size) {
  hang(fd);
  if (wanted("eio", fd)) return errno = EIO, -1;
  return REAL(write)(fd, data, size > 1 && wanted("short", fd) ? size / 2 : size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  hang(fd);
  if (wanted("eio", fd)) return errno = EIO, -1;
  return REAL(pwrite)(fd, data, size > 1 && wanted("short", fd) ? size / 2 : size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  hang(fd);
  if (wanted("eio", fd)) return errno = EIO, -1;
  return REAL(pwrite64)(fd, data, size > 1 && wanted("short", fd) ? size / 2 : size, at);
}
static void slow(int fd) {
  if (wanted("slow", fd)) usleep(3000000);
  for (int first = 1; wanted("hold", fd); first = 0) {
    char held[4096];
    snprintf(held, sizeof held, "%s.held", getenv("IO_FAULTS"));
    const int made = first ? open(held, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (made >= 0) close(made);
    usleep(10000);
  }
}
int fsync(int fd) {
  slow(fd);
  return wanted("fsync", fd) ? (errno = EIO, -1) : REAL(fsync)(fd);
}
int fdatasync(int fd) {
  slow(fd);
  return wanted("fsync", fd) ? (errno = EIO, -1) : REAL(fdatasync)(fd);
}
