/* A library of NVIDIA's without a driver: every call reads what there is from the text file $NVML_STATE.
 *
 *   gpu UUID busy mem_used mem_total celsius milliwatts limit_milliwatts sm_mhz mem_mhz fan ecc reasons energy_mj
 *   more UUID reserved encoder decoder rx_kb tx_kb             of the GPU with this UUID; reserved is a part of mem_used
 *   mig UUID NUMBER UUID_OF_INSTANCE mem_used mem_total      an instance of the GPU with the first UUID
 *   process UUID PID BYTES PERCENT                           BYTES -1: not known; of a GPU or an instance
 *   lost UUID                                                its calls return GPU_IS_LOST, and so does its handle
 *   fail FUNCTION CODE                                       the function returns this code
 *   hang FUNCTION SECONDS                                    the function takes so long, or until this line is gone
 *   loaded NUMBER                                            another number: the driver was loaded again
 *
 * $NVML_CALLS, if set, gets a line for each call: the function and the UUID. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef unsigned int number;
typedef unsigned long long large;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, LOST = 15 };
enum { MOST = 16, MOST_PROCESSES = 64, LENGTH = 96 };

struct process { char uuid[LENGTH]; number pid; long long bytes; number percent; };
struct gpu {
    char uuid[LENGTH], above[LENGTH];
    number busy, celsius, milliwatts, limit, sm, memory_clock, fan, reasons, instance;
    large used, total, ecc, energy, reserved;
    number encoder, decoder, rx, tx;
    int is_instance, is_lost;
};

static struct gpu gpus[MOST];
static struct process processes[MOST_PROCESSES];
static int gpu_count, process_count, opened, failure;
static long loaded, loaded_at_open;
static unsigned hang_seconds;
static char handles[MOST][LENGTH];

static struct gpu *find(const char *uuid) {
    for (int i = 0; i < gpu_count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return &gpus[i];
    return NULL;
}

static int load(const char *function) {
    char line[512], word[LENGTH], uuid[LENGTH];
    long count;
    struct gpu m;
    const char *path = getenv("NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    gpu_count = process_count = failure = 0, loaded = 0, hang_seconds = 0;
    if (!file) return NOT_LOADED;
    while (fgets(line, sizeof line, file)) {
        struct gpu *g = &gpus[gpu_count];
        struct process *p = &processes[process_count];
        if (gpu_count < MOST) memset(g, 0, sizeof *g);
        if (gpu_count < MOST && sscanf(line, "gpu %95s %u %llu %llu %u %u %u %u %u %u %llu %u %llu", g->uuid, &g->busy, &g->used,
                &g->total, &g->celsius, &g->milliwatts, &g->limit, &g->sm, &g->memory_clock, &g->fan, &g->ecc, &g->reasons,
                &g->energy) == 13) gpu_count++;
        else if (gpu_count < MOST && sscanf(line, "mig %95s %u %95s %llu %llu", g->above, &g->instance, g->uuid, &g->used,
                &g->total) == 5) g->is_instance = 1, gpu_count++;
        else if (process_count < MOST_PROCESSES && sscanf(line, "process %95s %u %lld %u", p->uuid, &p->pid, &p->bytes,
                &p->percent) == 4) process_count++;
        else if (sscanf(line, "more %95s %llu %u %u %u %u", uuid, &m.reserved, &m.encoder, &m.decoder, &m.rx, &m.tx) == 6) {
            struct gpu *found = find(uuid);
            if (found) found->reserved = m.reserved, found->encoder = m.encoder, found->decoder = m.decoder, found->rx = m.rx, found->tx = m.tx;
        }
        else if (sscanf(line, "lost %95s", uuid) == 1) { struct gpu *found = find(uuid); if (found) found->is_lost = 1; }
        else if (sscanf(line, "fail %95s %ld", word, &count) == 2 && !strcmp(word, function)) failure = (int)count;
        else if (sscanf(line, "hang %95s %ld", word, &count) == 2 && !strcmp(word, function)) hang_seconds = (unsigned)count;
        else sscanf(line, "loaded %ld", &loaded);
    }
    fclose(file);
    return OK;
}

static void note(const char *function, const char *uuid) {
    const char *path = getenv("NVML_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) fprintf(file, "%s %s\n", function, uuid), fclose(file);
}

static int load_slowly(const char *function) {
    int code = load(function);
    for (unsigned steps = hang_seconds * 50; steps && hang_seconds; steps--) usleep(20000), code = load(function);
    return code;
}

static int enter(const char *function) {
    note(function, "-");
    int code = load_slowly(function);
    if (code) return code;
    if (!opened || loaded != loaded_at_open) return UNINITIALIZED;
    return failure;
}

static int enter_gpu(const char *function, void *handle, struct gpu **found) {
    size_t index = (size_t)handle - 1;
    if (index >= MOST) return INVALID;
    note(function, handles[index]);
    int code = load_slowly(function);
    if (code) return code;
    if (!opened || loaded != loaded_at_open) return UNINITIALIZED;
    *found = find(handles[index]);
    if (!*found || (*found)->is_lost) return LOST;
    return failure;
}

static void *handle_of(const char *uuid) {
    size_t i = 0;
    while (i < MOST - 1 && handles[i][0] && strcmp(handles[i], uuid)) i++;
    snprintf(handles[i], LENGTH, "%s", uuid);
    return (void *)(i + 1);
}

const char *nvmlErrorString(int code) {
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_LOADED: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

int nvmlInitWithFlags(number flags) {
    note("nvmlInit", "-");
    int code = load_slowly("nvmlInit");
    (void)flags;
    if (code || failure) return code ? code : failure;
    opened++, loaded_at_open = loaded;
    return OK;
}

int nvmlShutdown(void) { return opened > 0 ? (opened--, OK) : UNINITIALIZED; }

int nvmlDeviceGetCount_v2(number *count) {
    int code = enter(__func__);
    *count = 0;
    for (int i = 0; !code && i < gpu_count; i++) *count += !gpus[i].is_instance;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(number index, void **handle) {
    int code = enter(__func__);
    for (int i = 0; !code && i < gpu_count; i++)
        if (!gpus[i].is_instance && index-- == 0) return gpus[i].is_lost ? LOST : (*handle = handle_of(gpus[i].uuid), OK);
    return code ? code : INVALID;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **handle) {
    number domain, bus;
    int code = enter(__func__);
    if (code) return code;
    if (sscanf(address, "%x:%x:", &domain, &bus) != 2 || !bus || bus > (number)gpu_count || gpus[bus - 1].is_instance) return NOT_FOUND;
    if (gpus[bus - 1].is_lost) return LOST;
    return *handle = handle_of(gpus[bus - 1].uuid), OK;
}

#define ENTER struct gpu *gpu; int code = enter_gpu(__func__, handle, &gpu); if (code) return code
#define PHYSICAL ENTER; if (gpu->is_instance) return NOT_SUPPORTED

int nvmlDeviceGetUUID(void *handle, char *text, number size) { ENTER; snprintf(text, size, "%s", gpu->uuid); return OK; }
int nvmlDeviceGetName(void *handle, char *text, number size) { ENTER; snprintf(text, size, "NVIDIA Test %d", (int)(gpu - gpus)); return OK; }

int nvmlDeviceGetIndex(void *handle, number *index) {
    ENTER;
    *index = 0;
    for (int i = 0; &gpus[i] < gpu; i++) *index += !gpus[i].is_instance;
    return OK;
}

int nvmlDeviceGetMigMode(void *handle, number *now, number *later) {
    ENTER;
    *now = 0;
    for (int i = 0; i < gpu_count; i++) *now |= gpus[i].is_instance && !strcmp(gpus[i].above, gpu->uuid);
    *later = *now;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, number *count) { ENTER; *count = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, number index, void **instance) {
    ENTER;
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].is_instance && gpus[i].instance == index && !strcmp(gpus[i].above, gpu->uuid))
            return *instance = handle_of(gpus[i].uuid), OK;
    return NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(void *handle, char *info) {
    ENTER;
    memset(info, 0, 16 + 5 * sizeof(number) + 32);
    snprintf(info + 16 + 5 * sizeof(number), 32, "00000000:%02X:00.0", (number)(gpu - gpus) + 1);
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, number *rates) { PHYSICAL; rates[0] = gpu->busy, rates[1] = 0; return OK; }
int nvmlDeviceGetMemoryInfo(void *handle, large *memory) {
    ENTER;
    memory[0] = gpu->total, memory[1] = gpu->total - gpu->used, memory[2] = gpu->used;
    return OK;
}
struct memory { number version; large total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory *memory) {
    ENTER;
    memory->total = gpu->total, memory->reserved = gpu->reserved;
    memory->used = gpu->used - gpu->reserved, memory->free = gpu->total - gpu->used;
    return OK;
}
int nvmlDeviceGetEncoderUtilization(void *handle, number *value, number *period) { PHYSICAL; *value = gpu->encoder, *period = 167000; return OK; }
int nvmlDeviceGetDecoderUtilization(void *handle, number *value, number *period) { PHYSICAL; *value = gpu->decoder, *period = 167000; return OK; }
int nvmlDeviceGetPcieThroughput(void *handle, int counter, number *value) { PHYSICAL; *value = counter ? gpu->rx : gpu->tx; return OK; }
int nvmlDeviceGetTemperature(void *handle, int sensor, number *value) { PHYSICAL; (void)sensor; *value = gpu->celsius; return OK; }
int nvmlDeviceGetPowerUsage(void *handle, number *value) { PHYSICAL; *value = gpu->milliwatts; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *handle, number *value) { PHYSICAL; *value = gpu->limit; return OK; }
int nvmlDeviceGetClockInfo(void *handle, int kind, number *value) { PHYSICAL; *value = kind == 2 ? gpu->memory_clock : gpu->sm; return OK; }
int nvmlDeviceGetFanSpeed(void *handle, number *value) { PHYSICAL; *value = gpu->fan; return OK; }
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int since, large *value) { PHYSICAL; (void)kind, (void)since; *value = gpu->ecc; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, large *value) { PHYSICAL; *value = gpu->reasons; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *handle, large *value) { PHYSICAL; *value = gpu->energy; return OK; }

struct running { number pid; large bytes; number instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, number *count, struct running *found) {
    ENTER;
    number room = *count;
    *count = 0;
    for (int i = 0; i < process_count; i++) {
        if (strcmp(processes[i].uuid, gpu->uuid)) continue;
        if (*count < room) found[*count] = (struct running){processes[i].pid, (large)processes[i].bytes, ~0u, ~0u};
        ++*count;
    }
    return *count > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, number *count, void *found) { ENTER; (void)found; *count = 0; return OK; }

struct sample { number pid; large moment; number sm, memory, encoder, decoder; };

int nvmlDeviceGetProcessUtilization(void *handle, struct sample *found, number *count, large since) {
    PHYSICAL;
    struct timeval now;
    number room = found ? *count : 0;
    gettimeofday(&now, NULL);
    large moment = now.tv_sec * 1000000ULL + now.tv_usec;
    *count = 0;
    for (int i = 0; moment > since && i < process_count; i++) {
        if (strcmp(processes[i].uuid, gpu->uuid) || !processes[i].percent) continue;
        if (*count < room) found[*count] = (struct sample){processes[i].pid, moment, processes[i].percent, 0, 0, 0};
        ++*count;
    }
    return !*count ? NOT_FOUND : *count > room ? TOO_SMALL : OK;
}
