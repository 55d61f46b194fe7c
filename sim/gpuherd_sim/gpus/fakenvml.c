/*
 * A libnvidia-ml.so.1 that acts out a scenario instead of asking a driver.
 *
 * It reads the plain copy of a scenario, "$GPUHERD_GPU_SCENARIO.state" (scenario_file.py writes it), anew
 * whenever the file changes: lines "SECOND KEY VALUE", of which the last one whose second has come wins.
 * The types are our own; tests compare their layout with NVIDIA's header. No file = no driver loaded.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
    VERSION_MISMATCH = 25,
};
enum { MAX_GPUS = 64, TEXT = 512, KEY = 128 };

typedef struct gpu { int number; } gpu_t;
typedef gpu_t *handle_t;

typedef struct { unsigned version, sensor; int celsius; } temperature_t;
typedef struct { unsigned version; int celsius; } margin_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory2_t;
typedef struct { unsigned gpu, memory; } utilisation_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;
typedef union { double d; int i; unsigned u; unsigned long long ull; long long sll; } value_t;
typedef struct {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type, result;
    value_t value;
} field_t;
typedef struct {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} pci_t;

#define VERSIONED(type, number) ((unsigned)(sizeof(type) | ((unsigned)(number) << 24)))

static const unsigned LAYOUT[] = {
    sizeof(temperature_t), sizeof(margin_t), sizeof(memory_t), sizeof(memory2_t),
    sizeof(utilisation_t), sizeof(process_t), sizeof(field_t), sizeof(pci_t),
};

/* Not NVIDIA's: lets a test compare our sizes with the header's. */
unsigned nvmlFakeLayout(unsigned which)
{
    return which < sizeof LAYOUT / sizeof *LAYOUT ? LAYOUT[which] : 0;
}

/* ------------------------------------------------------------------ the scenario */

typedef struct { double at; unsigned hash; char *key, *value; } line_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static line_t *lines;
static size_t line_count;
static double started;
static struct timespec stamp_time;
static ino_t stamp_inode;
static int loaded;

static double boot_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned hash_of(const char *text)
{
    unsigned hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static void forget(void)
{
    for (size_t i = 0; i < line_count; i++) {
        free(lines[i].key);
        free(lines[i].value);
    }
    free(lines);
    lines = NULL;
    line_count = 0;
    loaded = 0;
}

static void take(char *line)
{
    char *rest, *key, *value;
    double at = strtod(line, &rest);
    if (strncmp(line, "started ", 8) == 0) {
        started = strtod(line + 8, NULL);
        return;
    }
    key = strtok_r(NULL, " ", &rest);
    value = strtok_r(NULL, "\n", &rest);
    if (key == NULL || value == NULL)
        return;
    line_t *more = realloc(lines, (line_count + 1) * sizeof *lines);
    if (more == NULL)
        return;
    lines = more;
    lines[line_count++] = (line_t){at, hash_of(key), strdup(key), strdup(value)};
}

/* Returns 0 when there is no scenario. Called with the lock held. */
static int refresh(void)
{
    const char *name = getenv("GPUHERD_GPU_SCENARIO");
    char path[4096], line[1024];
    struct stat now;
    if (name == NULL || snprintf(path, sizeof path, "%s.state", name) >= (int)sizeof path)
        return 0;
    if (stat(path, &now) != 0) {
        forget();
        return 0;
    }
    if (loaded && now.st_ino == stamp_inode && now.st_mtim.tv_sec == stamp_time.tv_sec
        && now.st_mtim.tv_nsec == stamp_time.tv_nsec)
        return 1;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    forget();
    while (fgets(line, sizeof line, file))
        take(line);
    fclose(file);
    stamp_inode = now.st_ino;
    stamp_time = now.st_mtim;
    loaded = 1;
    return 1;
}

/* Copies the value in force to out; returns 0 when there is none. */
static int look_up(const char *key, char out[TEXT])
{
    int found = 0;
    unsigned hash = hash_of(key);
    pthread_mutex_lock(&lock);
    if (refresh()) {
        double elapsed = boot_seconds() - started;
        for (size_t i = line_count; i-- > 0 && !found;)
            if (lines[i].hash == hash && lines[i].at <= elapsed && strcmp(lines[i].key, key) == 0) {
                snprintf(out, TEXT, "%s", lines[i].value);
                found = 1;
            }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static double number(const char *key, double otherwise)
{
    char text[TEXT];
    return look_up(key, text) ? strtod(text, NULL) : otherwise;
}

/* A GPU's own value, else that of all; number < 0 is the host itself. */
static int gpu_text(int gpu, const char *name, char out[TEXT])
{
    char key[KEY];
    if (gpu < 0)
        return look_up(name, out);
    snprintf(key, sizeof key, "gpu.%d.%s", gpu, name);
    if (look_up(key, out))
        return 1;
    snprintf(key, sizeof key, "all.%s", name);
    return look_up(key, out);
}

static double gpu_number(int gpu, const char *name)
{
    char text[TEXT];
    return gpu_text(gpu, name, text) ? strtod(text, NULL) : 0;
}

static unsigned long long gpu_whole(int gpu, const char *name)
{
    char text[TEXT];
    return gpu_text(gpu, name, text) ? strtoull(text, NULL, 10) : 0;
}

/* ------------------------------------------------------------------ faults */

static double hang_seconds(const char *call, int gpu)
{
    char key[KEY];
    double host, call_there, one = 0, call_here = 0;
    snprintf(key, sizeof key, "call.%s.hang_s", call);
    host = number("hang_s", 0);
    call_there = number(key, 0);
    if (gpu >= 0) {
        one = gpu_number(gpu, "hang_s");
        call_here = gpu_number(gpu, key);
    }
    return fmax(fmax(host, call_there), fmax(one, call_here));
}

static void hang(const char *call, int gpu)
{
    double since = boot_seconds();
    sigset_t term, before;
    int deaf = 0;
    while (boot_seconds() - since < hang_seconds(call, gpu)) {
        if (!deaf && number("hang_blocks_term", 0) != 0) {
            sigemptyset(&term);
            sigaddset(&term, SIGTERM);
            deaf = pthread_sigmask(SIG_BLOCK, &term, &before) == 0;
        }
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    if (deaf)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int gate(const char *call, int gpu)
{
    char key[KEY];
    double code;
    hang(call, gpu);
    snprintf(key, sizeof key, "call.%s.error", call);
    if ((code = number(key, 0)) != 0)
        return (int)code;
    if (gpu >= 0 && ((code = gpu_number(gpu, "error")) != 0 || (code = gpu_number(gpu, key)) != 0))
        return (int)code;
    return number("gpus", -1) < 0 ? DRIVER_NOT_LOADED : SUCCESS;
}

#define GATE(gpu)                                                                                          \
    do {                                                                                                   \
        int code_ = gate(__func__, gpu);                                                                   \
        if (code_ != SUCCESS)                                                                              \
            return code_;                                                                                  \
    } while (0)

/* ------------------------------------------------------------------ NVML */

static gpu_t gpus[MAX_GPUS];

static int is_gone(int gpu)
{
    return gpu_number(gpu, "gone") != 0;
}

static int copy(char *out, unsigned length, const char *text)
{
    return snprintf(out, length, "%s", text) < (int)length ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    GATE(-1);
    return SUCCESS;
}

int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    static char text[32];
    snprintf(text, sizeof text, "simulated error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length)
{
    char text[TEXT] = "";
    GATE(-1);
    look_up("driver", text);
    return copy(out, length, text);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    GATE(-1);
    *count = 0;
    for (int i = 0; i < (int)number("gpus", 0) && i < MAX_GPUS; i++)
        *count += !is_gone(i);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle_t *handle)
{
    int left = (int)index;
    GATE(-1);
    for (int i = 0; i < (int)number("gpus", 0) && i < MAX_GPUS; i++) {
        if (is_gone(i) || left-- > 0)
            continue;
        GATE(i);
        gpus[i].number = i;
        *handle = &gpus[i];
        return SUCCESS;
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(handle_t gpu, char *out, unsigned length)
{
    char text[TEXT] = "";
    GATE(gpu->number);
    gpu_text(gpu->number, "uuid", text);
    return copy(out, length, text);
}

int nvmlDeviceGetName(handle_t gpu, char *out, unsigned length)
{
    char text[TEXT] = "";
    GATE(gpu->number);
    gpu_text(gpu->number, "model", text);
    return copy(out, length, text);
}

int nvmlDeviceGetSerial(handle_t gpu, char *out, unsigned length)
{
    char text[TEXT] = "";
    GATE(gpu->number);
    gpu_text(gpu->number, "serial", text);
    return copy(out, length, text);
}

int nvmlDeviceGetVbiosVersion(handle_t gpu, char *out, unsigned length)
{
    char text[TEXT] = "";
    GATE(gpu->number);
    gpu_text(gpu->number, "vbios", text);
    return copy(out, length, text);
}

int nvmlDeviceGetPersistenceMode(handle_t gpu, unsigned *mode)
{
    GATE(gpu->number);
    *mode = (unsigned)gpu_number(gpu->number, "persistence");
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkWidth(handle_t gpu, unsigned *width)
{
    GATE(gpu->number);
    *width = (unsigned)gpu_number(gpu->number, "link_width");
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(handle_t gpu, unsigned *width)
{
    GATE(gpu->number);
    *width = (unsigned)gpu_number(gpu->number, "link_width_max");
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(handle_t gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    GATE(gpu->number);
    *corrected = (unsigned)gpu_number(gpu->number, "rows_remapped_corrected");
    *uncorrected = (unsigned)gpu_number(gpu->number, "rows_remapped_uncorrected");
    *pending = (unsigned)gpu_number(gpu->number, "row_remap_pending");
    *failed = (unsigned)gpu_number(gpu->number, "row_remap_failed");
    return SUCCESS;
}

/* Calls that yield one or two whole numbers of the scenario. */
#define ONE(name, value)                                                                                     \
    int name(handle_t gpu, unsigned *out)                                                                    \
    {                                                                                                        \
        GATE(gpu->number);                                                                                   \
        *out = (unsigned)gpu_number(gpu->number, value);                                                     \
        return SUCCESS;                                                                                      \
    }
#define TWO(name, first, second)                                                                             \
    int name(handle_t gpu, unsigned *now, unsigned *then)                                                    \
    {                                                                                                        \
        GATE(gpu->number);                                                                                   \
        *now = (unsigned)gpu_number(gpu->number, first);                                                     \
        *then = (unsigned)gpu_number(gpu->number, second);                                                   \
        return SUCCESS;                                                                                      \
    }

ONE(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
ONE(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
TWO(nvmlDeviceGetEccMode, "ecc_mode", "ecc_mode_pending")
TWO(nvmlDeviceGetMigMode, "mig_mode", "mig_mode_pending")

int nvmlDeviceGetEnforcedPowerLimit(handle_t gpu, unsigned *milliwatts)
{
    GATE(gpu->number);
    *milliwatts = (unsigned)(gpu_number(gpu->number, "power_limit_watts") * 1000);
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(handle_t gpu, unsigned kind, unsigned *mhz)
{
    GATE(gpu->number);
    if (kind != 1)
        return NOT_SUPPORTED;
    *mhz = (unsigned)gpu_number(gpu->number, "sm_clock_max_mhz");
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(handle_t gpu, unsigned long long *reasons)
{
    GATE(gpu->number);
    *reasons = (unsigned long long)gpu_number(gpu->number, "clock_reasons");
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(handle_t gpu, unsigned link, unsigned *active)
{
    GATE(gpu->number);
    if (link >= (unsigned)gpu_number(gpu->number, "nvlinks"))
        return INVALID_ARGUMENT;
    *active = link < (unsigned)gpu_number(gpu->number, "nvlinks_up");
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(handle_t gpu, unsigned kind, unsigned *mhz)
{
    GATE(gpu->number);
    if (kind != 1 && kind != 2)
        return NOT_SUPPORTED;
    *mhz = (unsigned)gpu_number(gpu->number, kind == 1 ? "sm_clock_mhz" : "memory_clock_mhz");
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(handle_t gpu, unsigned long long *millijoules)
{
    GATE(gpu->number);
    *millijoules = (unsigned long long)(gpu_number(gpu->number, "energy_joules") * 1000);
    return SUCCESS;
}

int nvmlDeviceGetPcieReplayCounter(handle_t gpu, unsigned *replays)
{
    GATE(gpu->number);
    *replays = (unsigned)gpu_number(gpu->number, "pcie_replays");
    return SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(handle_t gpu, unsigned *percent, unsigned *period_us)
{
    GATE(gpu->number);
    *percent = (unsigned)gpu_number(gpu->number, "encoder_percent");
    *period_us = 167000;
    return SUCCESS;
}

int nvmlDeviceGetDecoderUtilization(handle_t gpu, unsigned *percent, unsigned *period_us)
{
    GATE(gpu->number);
    *percent = (unsigned)gpu_number(gpu->number, "decoder_percent");
    *period_us = 167000;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(handle_t gpu, unsigned *minor)
{
    GATE(gpu->number);
    *minor = (unsigned)gpu->number;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(handle_t gpu, pci_t *pci)
{
    char text[TEXT];
    GATE(gpu->number);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10u + (unsigned)gpu->number;
    if (!gpu_text(gpu->number, "pci_bus_id", text))
        snprintf(text, sizeof text, "00000000:%02X:00.0", pci->bus);
    snprintf(pci->id, sizeof pci->id, "%.31s", text);
    snprintf(pci->legacy_id, sizeof pci->legacy_id, "%.15s", strlen(text) > 4 ? text + 4 : text);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(handle_t gpu, temperature_t *temperature)
{
    GATE(gpu->number);
    if (temperature->version != VERSIONED(temperature_t, 1))
        return VERSION_MISMATCH;
    if (temperature->sensor != 0)
        return INVALID_ARGUMENT;
    temperature->celsius = (int)gpu_number(gpu->number, "core_celsius");
    return SUCCESS;
}

int nvmlDeviceGetTemperature(handle_t gpu, unsigned sensor, unsigned *celsius)
{
    GATE(gpu->number);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *celsius = (unsigned)gpu_number(gpu->number, "core_celsius");
    return SUCCESS;
}

int nvmlDeviceGetMarginTemperature(handle_t gpu, margin_t *margin)
{
    GATE(gpu->number);
    if (margin->version != VERSIONED(margin_t, 1))
        return VERSION_MISMATCH;
    margin->celsius = (int)gpu_number(gpu->number, "margin_celsius");
    return SUCCESS;
}

int nvmlDeviceGetTemperatureThreshold(handle_t gpu, unsigned kind, unsigned *celsius)
{
    static const char *const NAMES[] = {"shutdown_celsius", "slowdown_celsius", "memory_max_celsius"};
    GATE(gpu->number);
    if (kind >= sizeof NAMES / sizeof *NAMES)
        return NOT_SUPPORTED;
    *celsius = (unsigned)gpu_number(gpu->number, NAMES[kind]);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(handle_t gpu, memory_t *memory)
{
    GATE(gpu->number);
    memory->total = gpu_whole(gpu->number, "total_bytes");
    memory->used = gpu_whole(gpu->number, "used_bytes") + gpu_whole(gpu->number, "reserved_bytes");
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(handle_t gpu, memory2_t *memory)
{
    GATE(gpu->number);
    if (memory->version != VERSIONED(memory2_t, 2))
        return VERSION_MISMATCH;
    memory->total = gpu_whole(gpu->number, "total_bytes");
    memory->reserved = gpu_whole(gpu->number, "reserved_bytes");
    memory->used = gpu_whole(gpu->number, "used_bytes");
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(handle_t gpu, unsigned uncorrected, unsigned aggregate, unsigned long long *n)
{
    char name[KEY];
    GATE(gpu->number);
    if (uncorrected > 1 || aggregate > 1)
        return INVALID_ARGUMENT;
    snprintf(name, sizeof name, "ecc_%scorrected_%s", uncorrected ? "un" : "", aggregate ? "aggregate" : "volatile");
    *n = gpu_whole(gpu->number, name);
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(handle_t gpu, utilisation_t *rates)
{
    GATE(gpu->number);
    rates->gpu = (unsigned)gpu_number(gpu->number, "utilisation_percent");
    rates->memory = (unsigned)gpu_number(gpu->number, "memory_utilisation_percent");
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(handle_t gpu, unsigned *milliwatts)
{
    GATE(gpu->number);
    *milliwatts = (unsigned)(gpu_number(gpu->number, "power_watts") * 1000);
    return SUCCESS;
}

static void fill(int gpu, field_t *field)
{
    enum { UNSIGNED_INT = 1, SIGNED_INT = 5 };
    char key[KEY];
    field->latency_us = 1;
    snprintf(key, sizeof key, "field.%u.error", field->field);
    field->result = (unsigned)gpu_number(gpu, key);
    field->type = field->field == 194 ? SIGNED_INT : UNSIGNED_INT;
    if (field->field == 82)
        field->value.u = (unsigned)gpu_number(gpu, "memory_celsius");
    else if (field->field == 194)
        field->value.i = (int)gpu_number(gpu, "slowdown_offset_celsius");
    else if (field->field == 230)
        field->value.u = (unsigned)gpu_number(gpu, "recovery_action");
    else
        field->result = NOT_SUPPORTED;
}

int nvmlDeviceGetFieldValues(handle_t gpu, int count, field_t *fields)
{
    GATE(gpu->number);
    for (int i = 0; i < count; i++)
        fill(gpu->number, &fields[i]);
    return SUCCESS;
}

static int processes(int gpu, unsigned *count, process_t *out)
{
    char text[TEXT] = "", *rest = text;
    unsigned room = out == NULL ? 0 : *count, found = 0;
    gpu_text(gpu, "pids", text);
    for (char *pid; (pid = strtok_r(rest, ",", &rest)) != NULL; found++)
        if (found < room)
            out[found] = (process_t){(unsigned)atoi(pid), 1ull << 20, ~0u, ~0u};
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(handle_t gpu, unsigned *count, process_t *out)
{
    GATE(gpu->number);
    return processes(gpu->number, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(handle_t gpu, unsigned *count, process_t *out)
{
    (void)out;
    GATE(gpu->number);
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(handle_t gpu, unsigned *count, process_t *out)
{
    (void)out;
    GATE(gpu->number);
    *count = 0;
    return SUCCESS;
}
