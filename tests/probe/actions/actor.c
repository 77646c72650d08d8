/* A process that looks like another one: its command line, its name, its environment, its user, its terminal, its PID namespace and what it
 * writes to are those that the stage says, a shared file with one record a process. It starts the processes that have it as parent, notes
 * every signal it gets, and waits. TERM ends it unless it is stubborn.
 *
 * `@7@` in a text is the pid of record 7, as its own PID namespace counts. Which record it is itself a process knows by a resource limit,
 * which outlives exec and means nothing else here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SETSID = 1, DOUBLE_FORK = 2, STUBBORN = 4, EXITS = 8, REAPS = 16, SUBREAPER = 32, STOPS = 64, TERMINAL = 128, FIRST = 256 };

typedef struct {
    int parent, flags, uid;
    volatile int pid, ready, signals, last;
    char comm[16];
    char argv[768], env[512]; /* words that end with \0 each; an empty one ends all */
    char out[256], holds[256];
} Record;

static Record *stage, *me;
static int records;

static void set_up(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) _exit(90);
    stage = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (stage == MAP_FAILED) _exit(91);
    records = (int)((size_t)status.st_size / sizeof(Record));
    close(file);
}

/* Decimal, without stdio: this runs between fork and exec. */
static char *number(char *to, int value) {
    char digits[12];
    int count = 0;
    do digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count) *to++ = digits[--count];
    return to;
}

static char *expand(const char *from) {
    static char room[16384];
    static size_t used;
    char *begin = room + used, *to = begin;
    while (*from) {
        int pid;
        const char *end = *from == '@' ? strchr(from + 1, '@') : NULL;
        if (end && end > from + 1 && strspn(from + 1, "0123456789") == (size_t)(end - from - 1)) {
            while (!(pid = stage[atoi(from + 1)].pid)) usleep(100); /* it starts in another branch of the tree */
            to = number(to, pid);
            from = end + 1;
        } else {
            *to++ = *from++;
        }
    }
    *to++ = 0;
    used += (size_t)(to - begin);
    return begin;
}

static void words(const char *text, char **list, int most) {
    int count = 0;
    for (; *text && count < most - 1; text += strlen(text) + 1) list[count++] = expand(text);
    list[count] = NULL;
}

/* A session on a terminal of its own; this process holds its other end too. */
static void take_terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    setsid();
    if (master < 0 || grantpt(master) || unlockpt(master) || open(ptsname(master), O_RDWR) < 0) _exit(97);
}

static void become(Record *one) {
    char *argv[32], *env[32];
    struct rlimit which;
    umask(0); /* several users write to one log */
    if (getrlimit(RLIMIT_MSGQUEUE, &which)) _exit(98);
    which.rlim_cur = (rlim_t)(one - stage);
    if (setrlimit(RLIMIT_MSGQUEUE, &which)) _exit(98);
    if (one->flags & SETSID) setsid();
    if (one->flags & TERMINAL) take_terminal();
    one->pid = getpid();
    words(one->argv, argv, 32);
    words(one->env, env, 32);
    if (one->out[0]) {
        int file = open(expand(one->out), O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (file < 0) _exit(92);
        dup2(file, 1);
        dup2(file, 2);
        close(file);
    }
    if (one->uid && !getuid() &&
        (setgroups(0, NULL) || setresgid((gid_t)one->uid, (gid_t)one->uid, (gid_t)one->uid) ||
                     setresuid((uid_t)one->uid, (uid_t)one->uid, (uid_t)one->uid)))
        _exit(93);
    execve("/tmp/actor", argv, env);
    _exit(94);
}

static void start(Record *one) {
    pid_t child = fork();
    if (child == 0) {
        if (one->flags & FIRST && unshare(CLONE_NEWPID)) _exit(99);
        if (one->flags & (DOUBLE_FORK | FIRST) && fork()) _exit(0);
        become(one);
    }
    if (one->flags & (DOUBLE_FORK | FIRST)) waitpid(child, NULL, 0);
}

static void note(int number) {
    me->last = number;
    me->signals++;
    if (number == SIGTERM && !(me->flags & STUBBORN)) _exit(0);
}

static void listen_to_signals(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number != SIGCHLD && number != SIGKILL && number != SIGSTOP) sigaction(number, &action, NULL);
    signal(SIGCHLD, me->flags & REAPS ? SIG_IGN : SIG_DFL);
}

int main(void) {
    struct rlimit which;
    set_up("/tmp/stage");
    if (getrlimit(RLIMIT_MSGQUEUE, &which) || which.rlim_cur >= (rlim_t)records) _exit(95);
    me = &stage[which.rlim_cur];
    prctl(PR_SET_NAME, me->comm);
    if (me->flags & SUBREAPER) prctl(PR_SET_CHILD_SUBREAPER, 1);
    listen_to_signals();
    if (me->holds[0] && open(expand(me->holds), O_WRONLY | O_CREAT | O_CLOEXEC, 0666) < 0) _exit(96);
    for (int at = 0; at < records; at++)
        if (stage[at].argv[0] && stage[at].parent == me - stage && !stage[at].pid) start(&stage[at]);
    me->ready = 1;
    if (me->flags & EXITS) _exit(0);
    if (me->flags & STOPS) raise(SIGSTOP);
    for (;;) pause();
}
