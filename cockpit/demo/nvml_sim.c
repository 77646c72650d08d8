/* A stand-in libnvidia-ml.so.1: GPUs, MIG devices, their processes and their faults, as a text file describes them.
 *
 * The file is named by NVML_SIM_STATE and looked at on every call, so whoever rewrites it changes the hardware. One thing a line:
 *
 *   gpu INDEX UUID TOTAL BASE UTIL MEMUTIL TEMP POWER LOST ECC NAME...
 *       TOTAL and BASE (memory in use that no process owns) in bytes, UTIL and MEMUTIL in percent, TEMP in degrees, POWER in
 *       milliwatts, ECC uncorrected errors. LOST 1: fallen off the bus, every question about it fails; LOST 2: there is no handle either.
 *   mig GPU INDEX UUID TOTAL BASE NAME...
 *       a MIG device of that GPU, which is in MIG mode as soon as it has one.
 *   proc DEVICE PID BYTES SM [start TICKS] [grow BYTES_PER_SECOND]
 *       a process that holds memory of DEVICE: `3`, or `3.1` for MIG device 1 of GPU 3. SM is the share of the GPU that it keeps busy;
 *       it adds to the GPU's UTIL, temperature and power. A process that is dead or a zombie no longer counts, nor does another one that
 *       got its number (TICKS is field 22 of /proc/PID/stat). `grow` counts from the start of the process.
 *   set GPU NAME VALUE
 *       in place of what is usual: clock (MHz of 1980), power_limit (milliwatts of 700000), pcie_generation (of 5), pcie_width (of 16),
 *       pcie_replays, nvlinks_down (of 18), nvlink_errors; recovery: what NVML asks for to make that GPU whole
 *       (nvmlDeviceGpuRecoveryAction_t); remap 1: bad rows of its memory wait for a reset; slow: what holds its clocks down
 *       (nvmlClocksEventReasons, as `0x40`).
 *   xid GPU CODE
 *       an Xid error, told to event sets that were there before the line was.
 *   driver VERSION
 *       in place of 580.00.SIM.
 *   sway PERCENT SECONDS
 *       every SM moves up and down by so much in so long, each process in a rhythm of its own.
 *   hang SECONDS|forever FUNCTION
 *       calls of FUNCTION (its C name without _v2 or _v3, or `*`) answer only after SECONDS, or once the line is gone.
 *   error CODE FUNCTION
 *       calls of FUNCTION fail: `error 9 nvmlInit` is a missing driver, `error 18 nvmlInit` one that was updated under its users' feet.
 *
 * Unknown lines are ignored. Without the file there is no driver.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_DEVICES 128
#define MAX_PROCESSES 1024
#define MAX_TROUBLES 16
#define MAX_SETTINGS 512
#define MAX_XIDS 64
#define MIG_PER_GPU 7
#define NOT_MIG (-1)
#define POWER_LIMIT 700000
#define CLOCK 1980
#define NVLINKS 18
#define NO_INSTANCE 0xFFFFFFFFu

typedef unsigned int uint;
typedef unsigned long long ull;
typedef int Answer;
typedef void *Handle; /* 1 + 8 * GPU + (1 + MIG device, or 0): a number, so it outlives a rewrite of the file */

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25,
};

typedef struct {
    int gpu, mig;
    char uuid[96], name[96];
    ull total, base, ecc;
    uint util, memory_util, temperature, power, lost;
} Device;

typedef struct {
    int gpu;
    char name[24];
    long long value;
} Setting;

typedef struct {
    int gpu;
    ull code;
} Xid;

typedef struct {
    int gpu, mig;
    uint pid, sm;
    ull bytes, start, grow;
} Process;

typedef struct {
    char function[80];
    double seconds; /* negative: forever */
    Answer error;   /* SUCCESS: a hang */
} Trouble;

/* What the file said when this thread last read it. Each thread has its own, so that a call that hangs holds up nobody else. */
static _Thread_local struct {
    struct timespec written;
    ino_t inode;
    off_t size;
    Device devices[MAX_DEVICES];
    Process processes[MAX_PROCESSES];
    Trouble troubles[MAX_TROUBLES];
    Setting settings[MAX_SETTINGS];
    Xid xids[MAX_XIDS];
    int device_count, process_count, trouble_count, setting_count, xid_count;
    char driver[64];
    int sway;
    double sway_period;
} state;

static int initialized;

/* ---- the file ---- */

static void read_device(const char *line) {
    Device device = {.mig = NOT_MIG};
    int whole = sscanf(line, "gpu %d %95s %llu %llu %u %u %u %u %u %llu %95[^\n]", &device.gpu, device.uuid, &device.total, &device.base,
                       &device.util, &device.memory_util, &device.temperature, &device.power, &device.lost, &device.ecc, device.name) == 11;
    int slice = sscanf(line, "mig %d %d %95s %llu %llu %95[^\n]", &device.gpu, &device.mig, device.uuid, &device.total, &device.base,
                       device.name) == 6;
    if ((whole || slice) && state.device_count < MAX_DEVICES && device.mig < MIG_PER_GPU)
        state.devices[state.device_count++] = device;
}

static void read_process(const char *line) {
    Process process = {.mig = NOT_MIG};
    char device[16];
    if (sscanf(line, "proc %15s %u %llu %u", device, &process.pid, &process.bytes, &process.sm) != 4)
        return;
    sscanf(device, "%d.%d", &process.gpu, &process.mig);
    const char *start = strstr(line, " start "), *grow = strstr(line, " grow ");
    if (start)
        process.start = strtoull(start + 7, NULL, 10);
    if (grow)
        process.grow = strtoull(grow + 6, NULL, 10);
    if (state.process_count < MAX_PROCESSES)
        state.processes[state.process_count++] = process;
}

static void read_trouble(const char *line) {
    Trouble trouble = {.seconds = -1};
    char amount[16];
    if (sscanf(line, "hang %15s %79s", amount, trouble.function) == 2) {
        if (strcmp(amount, "forever"))
            trouble.seconds = atof(amount);
    } else if (sscanf(line, "error %d %79s", &trouble.error, trouble.function) != 2) {
        return;
    }
    if (state.trouble_count < MAX_TROUBLES)
        state.troubles[state.trouble_count++] = trouble;
}

static void read_setting(const char *line) {
    Setting setting;
    Xid xid;
    if (sscanf(line, "set %d %23s %lli", &setting.gpu, setting.name, &setting.value) == 3 && state.setting_count < MAX_SETTINGS)
        state.settings[state.setting_count++] = setting;
    if (sscanf(line, "xid %d %llu", &xid.gpu, &xid.code) == 2 && state.xid_count < MAX_XIDS)
        state.xids[state.xid_count++] = xid;
}

static Answer read_state(void) {
    const char *path = getenv("NVML_SIM_STATE");
    FILE *file = path ? fopen(path, "re") : NULL;
    struct stat now;
    if (!file)
        return DRIVER_NOT_LOADED;
    if (fstat(fileno(file), &now) == 0 && memcmp(&now.st_mtim, &state.written, sizeof now.st_mtim) == 0 &&
        now.st_ino == state.inode && now.st_size == state.size) {
        fclose(file);
        return SUCCESS;
    }
    memset(&state, 0, sizeof state);
    state.written = now.st_mtim, state.inode = now.st_ino, state.size = now.st_size;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        read_device(line);
        read_process(line);
        read_trouble(line);
        read_setting(line);
        sscanf(line, "driver %63s", state.driver);
        sscanf(line, "sway %d %lf", &state.sway, &state.sway_period);
    }
    fclose(file);
    return SUCCESS;
}

/* ---- trouble ---- */

static double clock_now(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static const Trouble *trouble_with(const char *function) {
    size_t length = strlen(function);
    if (length > 3 && function[length - 3] == '_' && function[length - 2] == 'v')
        length -= 3;
    for (int i = 0; i < state.trouble_count; i++) {
        const char *named = state.troubles[i].function;
        if (!strcmp(named, "*") || (!strncmp(named, function, length) && !named[length]))
            return &state.troubles[i];
    }
    return NULL;
}

/* Every call begins here: it knows the file as it is now, and fails or waits where the file says so. */
static Answer enter(const char *function) {
    double began = clock_now(CLOCK_MONOTONIC);
    for (;;) {
        Answer answer = read_state();
        if (answer)
            return answer;
        const Trouble *trouble = trouble_with(function);
        if (!trouble)
            return SUCCESS;
        if (trouble->error)
            return trouble->error;
        if (trouble->seconds >= 0 && clock_now(CLOCK_MONOTONIC) - began >= trouble->seconds)
            return SUCCESS;
        usleep(50000);
    }
}

/* ---- devices ---- */

static Device *find(int gpu, int mig) {
    for (int i = 0; i < state.device_count; i++)
        if (state.devices[i].gpu == gpu && state.devices[i].mig == mig)
            return &state.devices[i];
    return NULL;
}

static Handle handle_of(const Device *device) { return (Handle)(uintptr_t)(1 + 8 * device->gpu + 1 + device->mig); }

static const Device *device_of(Handle handle) {
    int number = (int)(uintptr_t)handle - 1;
    return number < 0 ? NULL : find(number / 8, number % 8 - 1);
}

static int is_lost(const Device *device) {
    const Device *gpu = find(device->gpu, NOT_MIG);
    return gpu && gpu->lost;
}

static int gpu_count(void) {
    int count = 0;
    for (int i = 0; i < state.device_count; i++)
        count += state.devices[i].mig == NOT_MIG;
    return count;
}

static int in_mig_mode(const Device *device) {
    for (int i = 0; i < state.device_count; i++)
        if (state.devices[i].gpu == device->gpu && state.devices[i].mig != NOT_MIG)
            return 1;
    return 0;
}

/* What was set of a GPU, or what is usual. */
static ull set_of(const Device *device, const char *name, ull usual) {
    for (int i = state.setting_count - 1; i >= 0; i--)
        if (state.settings[i].gpu == device->gpu && !strcmp(state.settings[i].name, name))
            return state.settings[i].value;
    return usual;
}

/* ---- how a call begins ---- */

static Answer begin(const char *function) { return initialized ? enter(function) : UNINITIALIZED; }

static Answer begin_with(const char *function, Handle handle, const Device **device) {
    Answer answer = begin(function);
    if (answer)
        return answer;
    *device = device_of(handle);
    if (!*device)
        return INVALID_ARGUMENT;
    return is_lost(*device) ? GPU_IS_LOST : SUCCESS;
}

#define RETURN_IF_FAILED(call)    \
    do {                          \
        Answer failed = (call);   \
        if (failed)               \
            return failed;        \
    } while (0)

#define ENTER() RETURN_IF_FAILED(begin(__func__))

/* Begins a call about one device, which it names `device`. */
#define ENTER_DEVICE_AS(function, handle) \
    const Device *device;                 \
    RETURN_IF_FAILED(begin_with(function, handle, &device))
#define ENTER_DEVICE(handle) ENTER_DEVICE_AS(__func__, handle)

/* The same for what only a whole GPU can tell. */
#define ENTER_GPU_AS(function, handle)  \
    ENTER_DEVICE_AS(function, handle);  \
    RETURN_IF_FAILED(device->mig == NOT_MIG ? SUCCESS : NOT_SUPPORTED)
#define ENTER_GPU(handle) ENTER_GPU_AS(__func__, handle)

/* ---- processes ---- */

/* Seconds that the process has lived, or a negative number when it is gone. */
static double age(const Process *process) {
    char path[32], text[1024], run_state = 0;
    ull started = 0;
    snprintf(path, sizeof path, "/proc/%u/stat", process->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *rest = strrchr(text, ')'); /* a name may hold anything, blanks and brackets too */
    if (!rest || sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &run_state, &started) != 2)
        return -1;
    if (run_state == 'Z' || run_state == 'X' || (process->start && process->start != started))
        return -1;
    double lived = clock_now(CLOCK_BOOTTIME) - (double)started / sysconf(_SC_CLK_TCK);
    return lived < 0 ? 0 : lived;
}

/* What runs on a device now, its memory grown; a GPU in MIG mode tells of all its devices. Returns how many. */
static int running(const Device *device, Process found[MAX_PROCESSES]) {
    int count = 0;
    for (int i = 0; i < state.process_count; i++) {
        Process process = state.processes[i];
        if (process.gpu != device->gpu || (device->mig != NOT_MIG && process.mig != device->mig))
            continue;
        double lived = age(&process);
        if (lived < 0)
            continue;
        process.bytes += (ull)(process.grow * lived);
        found[count++] = process;
    }
    return count;
}

static uint busy(const Process *process) {
    if (!process->sm || !state.sway || state.sway_period <= 0)
        return process->sm;
    double turns = clock_now(CLOCK_REALTIME) / state.sway_period + (process->pid % 17) / 17.0;
    double part = turns - (long long)turns;                     /* 0..1 */
    double wave = part < 0.5 ? 4 * part - 1 : 3 - 4 * part;     /* -1..1..-1 */
    int percent = (int)process->sm + (int)(wave * state.sway);
    return percent < 0 ? 0 : percent > 100 ? 100 : (uint)percent;
}

static uint busy_on(const Device *device) {
    Process found[MAX_PROCESSES];
    uint sum = 0;
    for (int i = running(device, found) - 1; i >= 0; i--)
        sum += busy(&found[i]);
    return sum > 100 ? 100 : sum;
}

static ull used_on(const Device *device) {
    Process found[MAX_PROCESSES];
    ull sum = device->base;
    for (int i = running(device, found) - 1; i >= 0; i--)
        sum += found[i].bytes;
    return sum > device->total ? device->total : sum;
}

static Answer copy(char *buffer, uint length, const char *text) {
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

/* ---- the library and the system ---- */

API Answer nvmlInitWithFlags(uint flags) {
    (void)flags;
    RETURN_IF_FAILED(enter("nvmlInit"));
    initialized++;
    return SUCCESS;
}

API Answer nvmlShutdown(void) {
    if (!initialized)
        return UNINITIALIZED;
    initialized--;
    return SUCCESS;
}

API const char *nvmlErrorString(Answer answer) {
    static const char *words[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch."};
    return answer >= 0 && answer < (int)(sizeof words / sizeof *words) ? words[answer] : "Unknown Error";
}

API Answer nvmlSystemGetDriverVersion(char *buffer, uint length) { ENTER(); return copy(buffer, length, *state.driver ? state.driver : "580.00.SIM"); }
API Answer nvmlSystemGetCudaDriverVersion(int *version) { ENTER(); *version = 13000; return SUCCESS; }

/* ---- finding a device ---- */

static Answer give(const Device *device, Handle *handle, Answer otherwise) {
    if (!device)
        return otherwise;
    if (device->lost == 2)
        return GPU_IS_LOST;
    *handle = handle_of(device);
    return SUCCESS;
}

static void bus_id(const Device *device, char *text, size_t length, const char *domain) {
    snprintf(text, length, "%s:%02X:00.0", domain, device->gpu + 1);
}

static const Device *with_bus_id(const char *wanted) {
    char text[32];
    for (int i = 0; i < state.device_count; i++) {
        bus_id(&state.devices[i], text, sizeof text, "00000000");
        if (state.devices[i].mig == NOT_MIG && strlen(wanted) >= 12 && !strcasecmp(text + 4, wanted + strlen(wanted) - 12))
            return &state.devices[i];
    }
    return NULL;
}

static const Device *with_uuid(const char *uuid) {
    for (int i = 0; i < state.device_count; i++)
        if (!strcmp(state.devices[i].uuid, uuid))
            return &state.devices[i];
    return NULL;
}

API Answer nvmlDeviceGetCount_v2(uint *count) { ENTER(); *count = gpu_count(); return SUCCESS; }
API Answer nvmlDeviceGetHandleByIndex_v2(uint index, Handle *handle) { ENTER(); return give(find((int)index, NOT_MIG), handle, INVALID_ARGUMENT); }
API Answer nvmlDeviceGetHandleByUUID(const char *uuid, Handle *handle) { ENTER(); return give(with_uuid(uuid), handle, NOT_FOUND); }
API Answer nvmlDeviceGetHandleByPciBusId_v2(const char *id, Handle *handle) { ENTER(); return give(with_bus_id(id), handle, NOT_FOUND); }

/* ---- MIG ---- */

API Answer nvmlDeviceGetMigMode(Handle handle, uint *current, uint *pending) {
    ENTER_GPU(handle);
    *current = *pending = in_mig_mode(device);
    return SUCCESS;
}

API Answer nvmlDeviceGetMaxMigDeviceCount(Handle handle, uint *count) {
    ENTER_GPU(handle);
    *count = in_mig_mode(device) ? MIG_PER_GPU : 0;
    return SUCCESS;
}

API Answer nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, uint index, Handle *mig) {
    ENTER_GPU(handle);
    return give(find(device->gpu, (int)index), mig, NOT_FOUND);
}

API Answer nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle handle, Handle *gpu) {
    ENTER_DEVICE(handle);
    return device->mig == NOT_MIG ? INVALID_ARGUMENT : give(find(device->gpu, NOT_MIG), gpu, NOT_FOUND);
}

static Answer instance(const char *function, Handle handle, uint *number) {
    ENTER_DEVICE_AS(function, handle);
    if (device->mig == NOT_MIG)
        return NOT_SUPPORTED;
    *number = (uint)device->mig;
    return SUCCESS;
}

API Answer nvmlDeviceIsMigDeviceHandle(Handle handle, uint *is_mig) {
    ENTER_DEVICE(handle);
    *is_mig = device->mig != NOT_MIG;
    return SUCCESS;
}

API Answer nvmlDeviceGetGpuInstanceId(Handle handle, uint *number) { return instance(__func__, handle, number); }
API Answer nvmlDeviceGetComputeInstanceId(Handle handle, uint *number) { return instance(__func__, handle, number); }

/* ---- who a device is ---- */

API Answer nvmlDeviceGetIndex(Handle handle, uint *index) {
    ENTER_DEVICE(handle);
    *index = (uint)(device->mig == NOT_MIG ? device->gpu : device->mig);
    return SUCCESS;
}

API Answer nvmlDeviceGetName(Handle handle, char *buffer, uint length) { ENTER_DEVICE(handle); return copy(buffer, length, device->name); }
API Answer nvmlDeviceGetUUID(Handle handle, char *buffer, uint length) { ENTER_DEVICE(handle); return copy(buffer, length, device->uuid); }

API Answer nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor) {
    ENTER_DEVICE(handle);
    *major = 9, *minor = 0;
    return SUCCESS;
}

typedef struct {
    char legacy_id[16];
    uint domain, bus, device, device_id, subsystem_id;
    char id[32];
} Pci;

API Answer nvmlDeviceGetPciInfo_v3(Handle handle, Pci *answer) {
    ENTER_GPU(handle);
    memset(answer, 0, sizeof *answer);
    answer->bus = (uint)device->gpu + 1;
    bus_id(device, answer->legacy_id, sizeof answer->legacy_id, "0000");
    bus_id(device, answer->id, sizeof answer->id, "00000000");
    return SUCCESS;
}

/* ---- how a device is ---- */

typedef struct { ull total, free, used; } Memory;
typedef struct { uint version; ull total, reserved, free, used; } MemoryV2;
typedef struct { uint gpu, memory; } Utilization;
typedef struct { uint version; int sensor; int degrees; } Temperature;

API Answer nvmlDeviceGetMemoryInfo(Handle handle, Memory *memory) {
    ENTER_DEVICE(handle);
    ull used = used_on(device);
    *memory = (Memory){device->total, device->total - used, used};
    return SUCCESS;
}

API Answer nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2 *memory) {
    ENTER_DEVICE(handle);
    ull used = used_on(device);
    *memory = (MemoryV2){memory->version, device->total, 0, device->total - used, used};
    return SUCCESS;
}

API Answer nvmlDeviceGetBAR1MemoryInfo(Handle handle, Memory *memory) {
    ENTER_DEVICE(handle);
    *memory = (Memory){device->total, device->total, 0};
    return SUCCESS;
}

API Answer nvmlDeviceGetUtilizationRates(Handle handle, Utilization *rates) {
    ENTER_GPU(handle);
    if (in_mig_mode(device))
        return NOT_SUPPORTED;
    uint work = busy_on(device), sum = device->util + work;
    *rates = (Utilization){sum > 100 ? 100 : sum, device->memory_util + work / 2 > 100 ? 100 : device->memory_util + work / 2};
    return SUCCESS;
}

static uint degrees(const Device *device) { return device->temperature + busy_on(device) / 4; }

API Answer nvmlDeviceGetTemperature(Handle handle, int sensor, uint *temperature) {
    ENTER_GPU(handle);
    if (sensor)
        return INVALID_ARGUMENT;
    *temperature = degrees(device);
    return SUCCESS;
}

API Answer nvmlDeviceGetTemperatureV(Handle handle, Temperature *temperature) {
    ENTER_GPU(handle);
    temperature->degrees = (int)degrees(device);
    return SUCCESS;
}

API Answer nvmlDeviceGetPowerUsage(Handle handle, uint *milliwatts) {
    ENTER_GPU(handle);
    uint limit = (uint)set_of(device, "power_limit", POWER_LIMIT), spare = device->power < limit ? limit - device->power : 0;
    *milliwatts = device->power + (uint)(0.8 * spare * busy_on(device) / 100);
    return SUCCESS;
}

static Answer number(const char *function, Handle handle, const char *name, ull usual, uint *answer) {
    ENTER_GPU_AS(function, handle);
    *answer = (uint)set_of(device, name, usual);
    return SUCCESS;
}

API Answer nvmlDeviceGetEnforcedPowerLimit(Handle handle, uint *milliwatts) { return number(__func__, handle, "power_limit", POWER_LIMIT, milliwatts); }
API Answer nvmlDeviceGetPowerManagementLimit(Handle handle, uint *milliwatts) { return number(__func__, handle, "power_limit", POWER_LIMIT, milliwatts); }
API Answer nvmlDeviceGetCurrPcieLinkGeneration(Handle handle, uint *answer) { return number(__func__, handle, "pcie_generation", 5, answer); }
API Answer nvmlDeviceGetCurrPcieLinkWidth(Handle handle, uint *answer) { return number(__func__, handle, "pcie_width", 16, answer); }
API Answer nvmlDeviceGetPcieReplayCounter(Handle handle, uint *answer) { return number(__func__, handle, "pcie_replays", 0, answer); }
API Answer nvmlDeviceGetClockInfo(Handle handle, int kind, uint *answer) { return (void)kind, number(__func__, handle, "clock", CLOCK, answer); }

/* `uncorrected` is 0 or 1; errors since the driver was loaded and errors ever are the same here. */
API Answer nvmlDeviceGetTotalEccErrors(Handle handle, int uncorrected, int aggregate, ull *count) {
    ENTER_GPU(handle);
    (void)aggregate;
    *count = uncorrected ? device->ecc : 0;
    return SUCCESS;
}

/* ---- what ails a device ---- */

/* Of nvmlDeviceGetFieldValues, each of a whole GPU or of the NVLink that is its scope. */
enum { LINK_COUNT = 91, LINK_REPLAYS = 161, LINK_RECOVERIES = 162, LINK_STATE = 165, RECOVERY_ACTION = 230 };
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 }; /* nvmlValueType_t */

typedef struct {
    uint field, scope;
    long long moment, latency;
    int type;
    Answer answer;
    union { uint number; ull longer; } value;
} Field;
_Static_assert(sizeof(Field) == 40, "as in nvml.h");

static Answer answer_field(const Device *device, Field *field) {
    field->type = UNSIGNED_INT;
    switch (field->field) {
    case RECOVERY_ACTION:
        field->value.number = (uint)set_of(device, "recovery", 0);
        return SUCCESS;
    case LINK_COUNT:
        field->value.number = NVLINKS;
        return SUCCESS;
    case LINK_STATE:
        field->value.number = field->scope < NVLINKS - set_of(device, "nvlinks_down", 0);
        return field->scope < NVLINKS ? SUCCESS : INVALID_ARGUMENT;
    case LINK_REPLAYS:
    case LINK_RECOVERIES:
        field->type = UNSIGNED_LONG_LONG;
        field->value.longer = field->field == LINK_REPLAYS && !field->scope ? set_of(device, "nvlink_errors", 0) : 0;
        return field->scope < NVLINKS ? SUCCESS : INVALID_ARGUMENT;
    }
    return NOT_SUPPORTED;
}

API Answer nvmlDeviceGetFieldValues(Handle handle, int count, Field *fields) {
    ENTER_GPU(handle);
    for (int i = 0; i < count; i++)
        fields[i].answer = answer_field(device, &fields[i]);
    return SUCCESS;
}

API Answer nvmlDeviceGetRemappedRows(Handle handle, uint *correctable, uint *uncorrectable, uint *pending, uint *failed) {
    ENTER_GPU(handle);
    *pending = (uint)set_of(device, "remap", 0);
    *correctable = *failed = 0, *uncorrectable = *pending;
    return SUCCESS;
}

static Answer clock_reasons(const char *function, Handle handle, ull *reasons) {
    ENTER_GPU_AS(function, handle);
    *reasons = set_of(device, "slow", 0);
    return SUCCESS;
}

API Answer nvmlDeviceGetCurrentClocksEventReasons(Handle handle, ull *reasons) { return clock_reasons(__func__, handle, reasons); }
API Answer nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, ull *reasons) { return clock_reasons(__func__, handle, reasons); }

/* ---- events ---- */

typedef struct { int told; } EventSet; /* how many Xids of the file it has told of, or found there */
typedef struct { Handle device; ull kind, data; uint gpu_instance, compute_instance; } Event;
_Static_assert(sizeof(Event) == 32, "as in nvml.h");
#define XID_EVENT 8

API Answer nvmlEventSetCreate(EventSet **answer) {
    ENTER();
    *answer = malloc(sizeof **answer);
    (*answer)->told = state.xid_count;
    return SUCCESS;
}

API Answer nvmlDeviceRegisterEvents(Handle handle, ull kinds, EventSet *events) { ENTER_GPU(handle); return (void)kinds, (void)events, SUCCESS; }
API Answer nvmlEventSetFree(EventSet *events) { return free(events), SUCCESS; }

/* Nobody waits here for longer than it takes to look. */
API Answer nvmlEventSetWait_v2(EventSet *events, Event *answer, uint milliseconds) {
    ENTER();
    (void)milliseconds;
    if (events->told > state.xid_count)
        events->told = state.xid_count;
    if (events->told == state.xid_count)
        return TIMEOUT;
    Xid xid = state.xids[events->told++];
    const Device *device = find(xid.gpu, NOT_MIG);
    *answer = (Event){device ? handle_of(device) : NULL, XID_EVENT, xid.code, NO_INSTANCE, NO_INSTANCE};
    return SUCCESS;
}

/* ---- what is always the same ---- */

static Answer constant(const char *function, Handle handle, uint value, uint *answer) {
    ENTER_DEVICE_AS(function, handle);
    *answer = value;
    return SUCCESS;
}

#define CONSTANT(function, value) \
    API Answer function(Handle handle, uint *answer) { return constant(__func__, handle, value, answer); }
#define CONSTANT_OF_KIND(function, value) \
    API Answer function(Handle handle, int kind, uint *answer) { return (void)kind, constant(__func__, handle, value, answer); }

CONSTANT(nvmlDeviceGetPersistenceMode, 1)
CONSTANT(nvmlDeviceGetComputeMode, 0)
CONSTANT(nvmlDeviceGetPerformanceState, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetMaxPcieLinkGeneration, 5)
CONSTANT(nvmlDeviceGetMaxPcieLinkWidth, 16)
CONSTANT(nvmlDeviceGetPowerManagementDefaultLimit, POWER_LIMIT)
CONSTANT_OF_KIND(nvmlDeviceGetMaxClockInfo, CLOCK)
CONSTANT_OF_KIND(nvmlDeviceGetPcieThroughput, 1000)

/* What a data center GPU under Linux does not have. */
#define NEVER_SUPPORTED(function) \
    API Answer function(Handle handle) { return (void)handle, NOT_SUPPORTED; }

NEVER_SUPPORTED(nvmlDeviceGetFanSpeed)
NEVER_SUPPORTED(nvmlDeviceGetDriverModel)
NEVER_SUPPORTED(nvmlDeviceGetDriverModel_v2)
NEVER_SUPPORTED(nvmlDeviceGetSerial)

static Answer codec(const char *function, Handle handle, uint *percent, uint *period) {
    ENTER_GPU_AS(function, handle);
    *percent = 0, *period = 100000;
    return SUCCESS;
}

API Answer nvmlDeviceGetEncoderUtilization(Handle handle, uint *percent, uint *period) { return codec(__func__, handle, percent, period); }
API Answer nvmlDeviceGetDecoderUtilization(Handle handle, uint *percent, uint *period) { return codec(__func__, handle, percent, period); }

/* ---- the processes of a device ---- */

typedef struct { uint pid; ull bytes; uint gpu_instance, compute_instance; } ProcessV2; /* _v2 and _v3 */
typedef struct { uint pid; ull time; uint sm, memory, encoder, decoder; } Sample;
typedef struct { ull time; uint pid, sm, memory, encoder, decoder, jpeg, flow; } SampleV1;
typedef struct { uint version, count; ull since; SampleV1 *samples; } SamplesV1;
_Static_assert(sizeof(ProcessV2) == 24 && sizeof(Sample) == 32, "as in nvml.h");
_Static_assert(sizeof(SampleV1) == 40 && sizeof(SamplesV1) == 24, "as in nvml.h");

static ull microseconds(void) { return (ull)(clock_now(CLOCK_REALTIME) * 1e6); }

/* Says how many there are; whether they fit where the caller wants them. */
static Answer room(const void *place, uint *count, int needed) {
    int fits = place ? needed <= (int)*count : needed == 0;
    *count = (uint)needed;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

static Answer compute_processes(const char *function, Handle handle, uint *count, ProcessV2 *answer) {
    ENTER_DEVICE_AS(function, handle);
    Process found[MAX_PROCESSES];
    Answer fits = room(answer, count, running(device, found));
    for (uint i = 0; !fits && i < *count; i++) {
        uint slice = found[i].mig == NOT_MIG ? NO_INSTANCE : (uint)found[i].mig;
        answer[i] = (ProcessV2){found[i].pid, found[i].bytes, slice, slice};
    }
    return fits;
}

API Answer nvmlDeviceGetComputeRunningProcesses_v2(Handle handle, uint *count, ProcessV2 *answer) {
    return compute_processes(__func__, handle, count, answer);
}

API Answer nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, uint *count, ProcessV2 *answer) {
    return compute_processes(__func__, handle, count, answer);
}

#define NO_PROCESSES(function) \
    API Answer function(Handle handle, uint *count, void *answer) { return (void)answer, constant(__func__, handle, 0, count); }

NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

API Answer nvmlDeviceGetProcessUtilization(Handle handle, Sample *answer, uint *count, ull since) {
    ENTER_GPU(handle);
    (void)since;
    Process found[MAX_PROCESSES];
    int number = running(device, found);
    if (in_mig_mode(device) || !number)
        return in_mig_mode(device) ? NOT_SUPPORTED : NOT_FOUND;
    Answer fits = room(answer, count, number);
    for (uint i = 0; !fits && i < *count; i++)
        answer[i] = (Sample){found[i].pid, microseconds(), busy(&found[i]), busy(&found[i]) / 2, 0, 0};
    return fits;
}

API Answer nvmlDeviceGetProcessesUtilizationInfo(Handle handle, SamplesV1 *answer) {
    ENTER_GPU(handle);
    if (answer->version != (sizeof *answer | 1u << 24))
        return VERSION_MISMATCH;
    Process found[MAX_PROCESSES];
    int number = running(device, found);
    if (in_mig_mode(device) || !number)
        return in_mig_mode(device) ? NOT_SUPPORTED : NOT_FOUND;
    Answer fits = room(answer->samples, &answer->count, number);
    for (uint i = 0; !fits && i < answer->count; i++)
        answer->samples[i] = (SampleV1){microseconds(), found[i].pid, busy(&found[i]), busy(&found[i]) / 2, 0, 0, 0, 0};
    return fits;
}
